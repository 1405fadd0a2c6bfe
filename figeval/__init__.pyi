from figeval.config import (
    RunConfig as RunConfig,
)
from figeval.data import (
    DataContext as DataContext,
)
from figeval.errors import (
    CapabilityError as CapabilityError,
    DataError as DataError,
    FigevalError as FigevalError,
    ModelError as ModelError,
    PluginError as PluginError,
    RecordError as RecordError,
    TaskError as TaskError,
    TrainError as TrainError,
)
from figeval.hooks import (
    hookimpl as hookimpl,
)
from figeval.metrics import (
    Collective as Collective,
    PerLabel as PerLabel,
    Statistic as Statistic,
    collective as collective,
    mean_of as mean_of,
)
from figeval.models.capabilities import (
    Chats as Chats,
    Closes as Closes,
    ComputesLoglikelihood as ComputesLoglikelihood,
    Describes as Describes,
    DeterministicByName as DeterministicByName,
    Embeds as Embeds,
    EstimatesCost as EstimatesCost,
    Fills as Fills,
    FindsSpans as FindsSpans,
    Fingerprints as Fingerprints,
    Fits as Fits,
    Generates as Generates,
    LabelsPairs as LabelsPairs,
    Outputs as Outputs,
    ScoresPairs as ScoresPairs,
    Writes as Writes,
)
from figeval.records.schema import (
    RunRecord as RunRecord,
    TaskRecord as TaskRecord,
)
from figeval.spec import (
    SuiteSpec as SuiteSpec,
    TaskSpec as TaskSpec,
    task as task,
)
from figeval.task_types.routes import (
    decide as decide,
)
from figeval.training.contract import (
    Features as Features,
    Learner as Learner,
    Setup as Setup,
)
from figeval.types import (
    ChoiceExample as ChoiceExample,
    Cloze as Cloze,
    Continuation as Continuation,
    Example as Example,
    Finish as Finish,
    GenerationExample as GenerationExample,
    Inputs as Inputs,
    JointExample as JointExample,
    Message as Message,
    PairExample as PairExample,
    PairLabel as PairLabel,
    Prediction as Prediction,
    Prompt as Prompt,
    RankingExample as RankingExample,
    Reply as Reply,
    Request as Request,
    Score as Score,
    ScoredSpan as ScoredSpan,
    SimilarityExample as SimilarityExample,
    Span as Span,
    SpanExample as SpanExample,
    SpanQuery as SpanQuery,
    Status as Status,
    Text as Text,
    TextPair as TextPair,
)
