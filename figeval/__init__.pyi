from figeval.answers.extract import (
    extract_choice as extract_choice,
    extract_label as extract_label,
)
from figeval.answers.numbers import extract_number as extract_number
from figeval.answers.reply_text import strip_reasoning as strip_reasoning
from figeval.wings.annotation.api import (
    AnnotationItems as AnnotationItems,
    JudgedItems as JudgedItems,
    export_items as export_items,
    import_judgements as import_judgements,
    judge_items as judge_items,
)
from figeval.wings.annotation.tables import (
    AnnotationResults as AnnotationResults,
)
from figeval.wings.check.api import (
    Gate as Gate,
    check as check,
)
from figeval.wings.checklist.api import (
    Checklist as Checklist,
    checklist as checklist,
)
from figeval.wings.comparison.api import (
    Comparison as Comparison,
    compare as compare,
)
from figeval.wings.contamination.api import (
    Contamination as Contamination,
    contamination as contamination,
)
from figeval.wings.comparison.difficulty import (
    Difficulty as Difficulty,
    difficulty as difficulty,
)
from figeval.wings.exporters.api import (
    export as export,
)
from figeval.wings.report.api import (
    WrittenPage as WrittenPage,
    board as board,
    report as report,
)
from figeval.wings.comparison.power import (
    Power as Power,
    power as power,
)
from figeval.api.runs import (
    Run as Run,
    load as load,
    run as run,
)
from figeval.api.scoring import (
    score as score,
)
from figeval.wings.training.api import (
    Training as Training,
    train as train,
)
from figeval.wings.verify.api import (
    Verification as Verification,
    verify as verify,
)
from figeval.cli.flags import shared_options as shared_options
from figeval.cli.shared import print_result as print_result
from figeval.citations import (
    Citation as Citation,
)
from figeval.config import (
    RunConfig as RunConfig,
)
from figeval.data import (
    DataContext as DataContext,
)
from figeval.errors import (
    CapabilityError as CapabilityError,
    DataError as DataError,
    DuplicateName as DuplicateName,
    FigevalError as FigevalError,
    FigevalWarning as FigevalWarning,
    FolderInUse as FolderInUse,
    MissingCopy as MissingCopy,
    ModelError as ModelError,
    NotFinished as NotFinished,
    OptionError as OptionError,
    PluginError as PluginError,
    RecordError as RecordError,
    TaskError as TaskError,
    TrainError as TrainError,
    UnknownName as UnknownName,
)
from figeval.runs.harness import Harness as Harness
from figeval.runs.inquiry import AnswerFile as AnswerFile
from figeval.runs.inquiry import Inquiry as Inquiry
from figeval.models.model import Model as Model
from figeval.runs.outputs import check_output as check_output
from figeval.runs.outputs import write_output as write_output
from figeval.runs.recompute import (
    RecomputedRun as RecomputedRun,
    RecomputedTask as RecomputedTask,
    recompute as recompute,
)
from figeval.runs.stored import (
    StoredAnswer as StoredAnswer,
    StoredRun as StoredRun,
)
from figeval.hooks import (
    BackendRegistrar as BackendRegistrar,
    CommandLine as CommandLine,
    ExporterRegistrar as ExporterRegistrar,
    LayoutRegistrar as LayoutRegistrar,
    LearnerRegistrar as LearnerRegistrar,
    ListingRegistrar as ListingRegistrar,
    MetricRegistrar as MetricRegistrar,
    PresetRegistrar as PresetRegistrar,
    RouteRegistrar as RouteRegistrar,
    RunViewRegistrar as RunViewRegistrar,
    SourceRegistrar as SourceRegistrar,
    TaskRegistrar as TaskRegistrar,
    TaskTypeRegistrar as TaskTypeRegistrar,
    ViewRegistrar as ViewRegistrar,
    hookimpl as hookimpl,
)
from figeval.io.observer import Observer as Observer
from figeval.io.observer import report_loading as report_loading, report_share as report_share
from figeval.language.words import TaskWords as TaskWords
from figeval.metrics import (
    Batched as Batched,
    Collective as Collective,
    Measured as Measured,
    PerLabel as PerLabel,
    Statistic as Statistic,
    answered as answered,
    batched as batched,
    collective as collective,
    expected_over_ties as expected_over_ties,
    mean_of as mean_of,
    quotient as quotient,
    ratio as ratio,
    tied_answers as tied_answers,
)
from figeval.metrics.aggregation import MetricAggregator as MetricAggregator
from figeval.metrics.catalogue import (
    MetricContext as MetricContext,
    MetricModel as MetricModel,
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
    HasRoom as HasRoom,
    LabelsPairs as LabelsPairs,
    OutputStream as OutputStream,
    Outputs as Outputs,
    Part as Part,
    ScoresPairs as ScoresPairs,
    ScoresTokens as ScoresTokens,
    Unifies as Unifies,
    Writes as Writes,
)
from figeval.plugins import PluginManager as PluginManager
from figeval.prompts import (
    PromptContext as PromptContext,
    PromptTemplate as PromptTemplate,
    load_template as load_template,
)
from figeval.reasoning import Reasoning as Reasoning
from figeval.records.predictions import PredictionRow as PredictionRow
from figeval.records.schema import (
    RunRecord as RunRecord,
    TaskRecord as TaskRecord,
)
from figeval.reporting.grid import Column as Column
from figeval.reporting.grid import Grid as Grid
from figeval.reporting.grid import Result as Result
from figeval.reporting.grid import Table as Table
from figeval.reporting.grid import data_frame as data_frame
from figeval.reporting.progress import open_display as open_display
from figeval.reporting.html import html_document as html_document
from figeval.registry import Registry as Registry
from figeval.spec import (
    SuiteSpec as SuiteSpec,
    TaskSpec as TaskSpec,
    task as task,
)
from figeval.task_types.base import (
    HIDDEN as HIDDEN,
    Metric as Metric,
    TaskType as TaskType,
    metric as metric,
)
from figeval.task_types.choice import (
    ChoiceExample as ChoiceExample,
)
from figeval.task_types.fields import (
    ColumnsField as ColumnsField,
    Field as Field,
    IndexField as IndexField,
    IndexesField as IndexesField,
    LabelField as LabelField,
    NamedTextsField as NamedTextsField,
    OptionalTextField as OptionalTextField,
    PositiveField as PositiveField,
    RowContext as RowContext,
    SpanField as SpanField,
    TextField as TextField,
    TextsField as TextsField,
)
from figeval.task_types.generation import (
    GenerationExample as GenerationExample,
)
from figeval.task_types.given import (
    Given as Given,
)
from figeval.task_types.joint import (
    JointExample as JointExample,
)
from figeval.task_types.pairs import (
    PairExample as PairExample,
)
from figeval.task_types.ranking import (
    RankingExample as RankingExample,
)
from figeval.task_types.routes import (
    Dialogue as Dialogue,
    ReplyReader as ReplyReader,
    Route as Route,
    by_likelihood as by_likelihood,
    by_reply as by_reply,
    cosine_scores as cosine_scores,
    decide as decide,
    dot_scores as dot_scores,
    pair_scores as pair_scores,
)
from figeval.task_types.similarity import (
    SimilarityExample as SimilarityExample,
)
from figeval.task_types.spans import (
    SpanExample as SpanExample,
)
from figeval.models.chat_api import (
    ApiAnswer as ApiAnswer,
    ApiOptions as ApiOptions,
    ChatApi as ChatApi,
    api_backend as api_backend,
)
from figeval.models.learner import (
    Batch as Batch,
    Features as Features,
    Learner as Learner,
    Setup as Setup,
)
from figeval.types import (
    JSON as JSON,
    AnswerFormat as AnswerFormat,
    Cloze as Cloze,
    Continuation as Continuation,
    Example as Example,
    Finish as Finish,
    Inputs as Inputs,
    Interval as Interval,
    Message as Message,
    PairLabel as PairLabel,
    Prediction as Prediction,
    Prompt as Prompt,
    Reply as Reply,
    Request as Request,
    Score as Score,
    ScoredSpan as ScoredSpan,
    Span as Span,
    SpanQuery as SpanQuery,
    Status as Status,
    Text as Text,
    TextPair as TextPair,
    written as written,
)
