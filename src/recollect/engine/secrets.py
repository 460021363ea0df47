"""Secrets in a text: found by their shape and blotted out. Pure."""

import re

BLOT = "[redacted]"

# Keys and tokens as their makers shape them, private keys, and whatever is introduced as a secret.
# The parts of one are counted, or a text of nothing but beginnings would be read from each of them.
_SHAPES = re.compile(
    r"""
    -----BEGIN[ A-Z]*PRIVATE\ KEY-----.*?(?:-----END[ A-Z]*PRIVATE\ KEY-----|\Z)
    | \b(?:sk|pk|rk)[-_](?:[A-Za-z0-9]+[-_]){0,12}[A-Za-z0-9]{16,}
    | \b(?:ghp|gho|ghu|ghs|ghr|github_pat|glpat|xox[abprs]|hf|npm|pypi)[-_][A-Za-z0-9_-]{16,}
    | \bAKIA[0-9A-Z]{16}\b
    | \bAIza[0-9A-Za-z_-]{35}\b
    | \beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{5,}
    | (?<=://)[^\s/:@]+:[^\s/@]+(?=@)
    """,
    re.VERBOSE | re.DOTALL,
)
_TOLD = re.compile(
    r"""
    (?P<said>\b(?:password|passphrase|passcode|pass\ ?word|pin(?:\ code)?|api[ _-]?key
        |(?:client|app)[ _-]secret|secret[ _-]key|access[ _-]token|auth[ _-]token|bearer)\b
        (?:\ (?:for|to|of)\ [\w'. -]{1,40}?)?
        \s*(?:is|=|:|was|are)\s*)
    (?P<secret>["'`]?[^\s"'`,;]{4,}["'`]?)
    """,
    re.VERBOSE | re.IGNORECASE,
)
_CARD = re.compile(r"(?<![\d-])\d(?:[ -]?\d){12,18}(?![\d-])")
# "My password is wrong" tells nothing.
_NO_SECRET = {
    "a", "an", "the", "not", "wrong", "correct", "expired", "required", "needed", "missing",
    "invalid", "incorrect", "strong", "weak", "safe", "secret", "stored", "saved", "always",
    "never", "very", "too", "also", "being", "something", "different", "same", "long", "short",
    "changed", "lost", "forgotten", "protected", "unknown", "working", "broken", "easy", "hard",
}  # fmt: skip


def redacted(text: str) -> str:
    """The text with every secret in it blotted out; nearly always the same text."""
    text = _SHAPES.sub(BLOT, text)
    text = _TOLD.sub(_blotted, text)
    return _CARD.sub(lambda match: BLOT if _is_card(match.group()) else match.group(), text)


def _blotted(match: re.Match[str]) -> str:
    word = match["secret"].strip("\"'`.").lower()
    return match.group() if word in _NO_SECRET or word == BLOT else match["said"] + BLOT


def _is_card(text: str) -> bool:
    """Luhn's sum, which random digits meet one time in ten."""
    digits = [int(letter) for letter in text if letter.isdigit()]
    if len(set(digits)) == 1:
        return False
    doubled = [digit * 2 - 9 * (digit > 4) for digit in digits[-2::-2]]
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0
