"""A reply that gives no answer: nothing was written, it is a refusal, or says that none or all of the options fit."""

from __future__ import annotations

import re

from figeval.types import Reply, Status


def not_written(reply: Reply, text: str) -> tuple[Status, str] | None:
    """(status, rule) of a reply that did not come or has no text but reasoning; None where there is something to read.

    `text` is the reply without its reasoning.
    """
    if reply.finish in ("refusal", "error"):
        return reply.finish, "finish"
    if text.strip():
        return None
    return ("truncated" if reply.finish == "length" else "empty"), "no_text"


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


REFUSAL = _any(
    r"\bI(?:'m| am)? (?:can(?:no|')?t|can not|will not|won't|unable to|not able to|(?:would )?prefer not)"
    r"(?: to| in good conscience|,)* ?(?:\w+ ){0,2}?(?:help|assist|answer|provide|comply|choose|pick|select|engage|"
    r"fulfil|do|continue|discuss|participate|support|judge|create|respond|with)",
    r"\bI (?:must|have to|'ll have to) decline|\bI refuse|\bI don't feel comfortable|\bI(?:'m| am) not comfortable",
    r"\bas an? (?:\w+ )?(?:AI|artificial|language model|LLM)|\bagainst my (?:guidelines|policy|principles|programming)",
    r"\bals (?:KI|künstliche)|\ben tant qu['e ]*(?:IA|modèle|intelligence)|\bcomo (?:una? )?(?:IA|modelo de)",
    r"kann (?:ich )?(?:\w+ ){0,5}nicht (?:helfen|beantworten|behilflich)|ik kan (?:\w+ ){0,4}niet helpen",
    r"je (?:ne )?(?:peux|suis) pas (?:\w+ ){0,4}(?:aider|répondre|mesure|fournir)",
    r"\bno puedo (?:ayudar|responder|ofrecer|cumplir|proporcionar)|\bnon posso (?:aiutar|rispond|fornire)",
    r"não posso (?:ajudar|responder|fornecer)|nie mogę (?:pomóc|odpowiedzieć|w tym)",
    r"yardımcı olamam|cevap veremem|не могу (?:помочь|ответить|выполнить|с этим)|كذكاء|لا (?:أستطيع|يمكنني)",
    r"(?:我|抱歉|对不起).{0,6}(?:无法|不能|没办法)|作为(?:一个)?(?:人工智能|AI)",
    r"お答え(?:することは)?でき|お手伝いでき|申し訳|(?:도와|답변|대답).{0,8}(?:없습니다|수 없)|죄송",
    r"(?:मदद|सहायता|उत्तर) नहीं (?:कर|दे)|माफ़ कर",
)
"""A model that declines, rather than one that errs."""

NONE_OR_ALL = _any(
    r"\b(?:none|all) of (?:the|these|them)\b(?! (?:other|remaining|rest))|\bneither (?:of|option)|\ball of them\b",
    r"\bno (?:option|answer|proverb|choice)s? (?:\w+ ){0,2}(?:fit|match|appl|is correct)",
    r"\b(?:keine|alle) (?:der|davon)|\baucune? d|\btoutes? les|\bninguna de|\btodas las|\bnessuna delle|\bnenhuma das",
    r"\bżadn[ae]|\bhiçbiri|ни один|以上(?:都|皆|全)|都不|どれも|모두|इनमें से कोई नहीं",
)
