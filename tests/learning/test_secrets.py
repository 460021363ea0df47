"""Secrets are redacted before anything is learnt from a text."""

import time

import pytest

from recollect.learning.secrets import REDACTED, redact

# Made up, in the shape of real ones. Joined here, so that no scanner takes them for leaked ones.
TOKENS = {
    "SendGrid": "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",
    "Mailchimp": "343ea45721923ed956e2b38c31db76aa" + "-us30",
    "Discord": "MTk4NjIyNDgzNDcxOTI1MjQ4" + ".Cl2FMQ." + "ZnCjm1XVW7vRze4b7Cq4se7kKWs",
    "Azure": "AccountKey=" + "lJzRc1YdHaAA2KCNJJ1tkYwF" + "a" * 62 + "==",
    "Telegram": "110201543:" + "AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw0",
    "Stripe": "sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc",
    "GitHub": "ghp_" + "wWPw5k4aXcaT4fNP0UcnZwJUVFk6LO0pINUx",
    "AWS": "AKIA" + "IOSFODNN7EXAMPLE",
    "Twilio": "SK" + "1a2b3c4d5e6f7a8b9c0d1e2f3a4b5c6d",
    "OpenAI": "sk-" + "Xi8tcNiHV9awbCcvilTeT3BlbkFJ3UDnpdEwNNm6wVBpYM0o",
}


@pytest.mark.parametrize("maker", TOKENS)
@pytest.mark.parametrize("text", ["{}", "My token is {}, keep it.", "config: token='{}'"])
def test_tokens_of_known_makers_are_redacted(maker: str, text: str) -> None:
    told = redact(text.format(TOKENS[maker]))

    secret = TOKENS[maker].removeprefix("AccountKey=")
    assert secret not in told
    assert REDACTED in told


@pytest.mark.parametrize(
    "text",
    [
        "My password is hunter22!",
        "Mein Passwort ist hunter22!",
        "Das Passwort für das WLAN lautet hunter22!",
        "Mon mot de passe est hunter22!",
        "Mi contraseña es hunter22!",
        "La mia password è hunter22!",
        "Minha senha é hunter22!",
        "Mijn wachtwoord is hunter22!",
        "Мой пароль: hunter22!",
        "我的密码是hunter22!",
        "パスワードはhunter22!",
        "비밀번호는 hunter22!",
    ],
)
def test_passwords_that_a_text_introduces_are_redacted(text: str) -> None:
    assert "hunter22" not in redact(text)


@pytest.mark.parametrize(
    "text",
    [
        "My password is wrong",
        "Das Passwort ist falsch.",
        "Mi contraseña es muy segura",
        "The commit is 5a9bbcd7f4f6b5f4d2b1a8e9c0d1e2f3a4b5c6d7",
        "Ticket 6f9619ff-8b86-d011-b42d-00c04fc964ff is mine",
        "We met at 10:30 and 2026:11 was the version",
        "See https://example.org/a/very/long/path/with/many/words/in/it.html",
        "The digest is e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    ],
)
def test_ordinary_texts_stay_as_they_are(text: str) -> None:
    assert redact(text) == text


def test_a_long_text_is_redacted_in_linear_time() -> None:
    started = time.monotonic()

    redact("SG." * 8_000 + " " + "110201543:" * 2_000 + " ".join(["a" * 30] * 500))

    assert time.monotonic() - started < 5
