"""Finds secrets in a text and redacts them. Pure."""

import re
from collections.abc import Iterator

from detect_secrets.plugins.artifactory import ArtifactoryDetector
from detect_secrets.plugins.aws import AWSKeyDetector
from detect_secrets.plugins.azure_storage_key import AzureStorageKeyDetector
from detect_secrets.plugins.base import RegexBasedDetector
from detect_secrets.plugins.discord import DiscordBotTokenDetector
from detect_secrets.plugins.github_token import GitHubTokenDetector
from detect_secrets.plugins.gitlab_token import GitLabTokenDetector
from detect_secrets.plugins.mailchimp import MailchimpDetector
from detect_secrets.plugins.npm import NpmDetector
from detect_secrets.plugins.openai import OpenAIDetector
from detect_secrets.plugins.pypi_token import PypiTokenDetector
from detect_secrets.plugins.sendgrid import SendGridDetector
from detect_secrets.plugins.slack import SlackDetector
from detect_secrets.plugins.square_oauth import SquareOAuthDetector
from detect_secrets.plugins.stripe import StripeDetector
from detect_secrets.plugins.telegram_token import TelegramBotTokenDetector
from detect_secrets.plugins.twilio import TwilioKeyDetector

REDACTED = "[redacted]"

# Detectors of tokens with a known shape. Detectors by entropy are left out: they take ids and
# hashes for secrets.
_DETECTORS: tuple[RegexBasedDetector, ...] = (
    ArtifactoryDetector(),
    AWSKeyDetector(),
    AzureStorageKeyDetector(),
    DiscordBotTokenDetector(),
    GitHubTokenDetector(),
    GitLabTokenDetector(),
    MailchimpDetector(),
    NpmDetector(),
    OpenAIDetector(),
    PypiTokenDetector(),
    SendGridDetector(),
    SlackDetector(),
    SquareOAuthDetector(),
    StripeDetector(),
    TelegramBotTokenDetector(),
    TwilioKeyDetector(),
)
# The detectors read one word at a time, because some of them match whole lines only. No token they
# know is shorter.
_WORD = re.compile(r"[^\s\"'`<>(){}\[\],]{20,}")

# Shapes that the detectors lack. Repetitions are bounded, or a text of nothing but prefixes would
# be scanned again from each of them.
_SHAPES = re.compile(
    r"""
    -----BEGIN[ A-Z]*PRIVATE\ KEY-----.*?(?:-----END[ A-Z]*PRIVATE\ KEY-----|\Z)
    | \b(?:sk|pk|rk)[-_](?:[A-Za-z0-9]+[-_]){0,12}[A-Za-z0-9]{16,}
    | \b(?:ghp|gho|ghu|ghs|ghr|github_pat|glpat|xox[abprs]|hf|npm|pypi)[-_][A-Za-z0-9_-]{16,}
    | \bAIza[0-9A-Za-z_-]{35}\b
    | \beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{5,}
    | \b[A-Za-z0-9+/]{86}==
    | (?<=://)[^\s/:@]+:[^\s/@]+(?=@)
    """,
    re.VERBOSE | re.DOTALL,
)
# A secret that the text introduces: "my password is ...", in the languages we know.
_INTRODUCED = re.compile(
    r"""
    (?P<introduction>(?:\b(?:password|passphrase|passcode|pass\ ?word|pin(?:\ code)?|api[ _-]?key
        |(?:client|app)[ _-]secret|secret[ _-]key|access[ _-]token|auth[ _-]token|bearer
        |passwort|kennwort|passphrase|zugangscode|mot\ de\ passe|code\ secret|contraseña|clave
        |password|parola\ d'ordine|senha|palavra-passe|wachtwoord|toegangscode|пароль)\b
        |密码|口令|パスワード|暗証番号|비밀번호|암호)
        (?:\ (?:for|to|of|für|vom|von|zu|pour|de|du|para|per|do|da|voor|van|от|для)
            \ [\w'. -]{1,40}?)?
        \s*(?:is|=|:|：|was|are|ist|lautet|war|est|es|è|é|era|是|为|は|는|은)\s*)
    (?P<secret>["'`]?[^\s"'`,;]{4,}["'`]?)
    """,
    re.VERBOSE | re.IGNORECASE,
)
_CARD = re.compile(r"(?<![\d-])\d(?:[ -]?\d){12,18}(?![\d-])")
# "My password is wrong" reveals nothing.
_HARMLESS = {
    "a", "an", "the", "not", "wrong", "correct", "expired", "required", "needed", "missing",
    "invalid", "incorrect", "strong", "weak", "safe", "secret", "stored", "saved", "always",
    "never", "very", "too", "also", "being", "something", "different", "same", "long", "short",
    "changed", "lost", "forgotten", "protected", "unknown", "working", "broken", "easy", "hard",
    "nicht", "falsch", "richtig", "abgelaufen", "sicher", "unsicher", "sehr", "kein", "eine",
    "noch", "immer", "geheim", "faux", "expiré", "sûr", "très", "toujours", "incorrecto",
    "correcto", "segura", "seguro", "siempre", "muy", "sbagliata", "sicura", "molto", "sempre",
    "errada", "muito", "niet", "verlopen", "veilig", "heel", "altijd", "неверный", "очень",
}  # fmt: skip


def redact(text: str) -> str:
    """Return the text with every secret replaced; nearly always the same text."""
    text = _SHAPES.sub(REDACTED, text)
    for secret in sorted(set(_detected(text)), key=len, reverse=True):
        text = text.replace(secret, REDACTED)
    text = _INTRODUCED.sub(_redact_introduced, text)
    return _CARD.sub(lambda match: REDACTED if _is_card(match.group()) else match.group(), text)


def _detected(text: str) -> Iterator[str]:
    for word in _WORD.findall(text):
        for detector in _DETECTORS:
            yield from (found for found in detector.analyze_string(word) if found)


def _redact_introduced(match: re.Match[str]) -> str:
    word = match["secret"].strip("\"'`.").lower()
    if word in _HARMLESS or word == REDACTED:
        return match.group()
    return match["introduction"] + REDACTED


def _is_card(text: str) -> bool:
    """Check Luhn's sum, which one in ten random numbers passes."""
    digits = [int(letter) for letter in text if letter.isdigit()]
    if len(set(digits)) == 1:
        return False
    doubled = [digit * 2 - 9 * (digit > 4) for digit in digits[-2::-2]]
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0
