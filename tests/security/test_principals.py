"""Names of those who show a certificate: as Java writes its subject, and as rules make of that."""

from __future__ import annotations

import shutil
import ssl
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kompat.errors import ConfigError, KafkaError
from kompat.security.principals import PrincipalRules, subject
from tests.security.certificates import Authority

SUBJECT = "CN=kafka1,OU=SME,O=mycp,L=Fulton,ST=MD,C=US"


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes its certificates with openssl")
@pytest.mark.parametrize(
    ("asked", "written"),
    [
        ("/C=US/ST=MD/L=Fulton/O=mycp/OU=SME/CN=kafka1", SUBJECT),
        ("/O=Acme, Inc./OU=Data+UID=a1/CN=alice", "CN=alice,OU=Data+UID=a1,O=Acme\\, Inc."),
        ("/DC=org/DC=example/CN=Zoë <z>", "CN=Zoë \\<z\\>,DC=example,DC=org"),
        ("/CN=#1", "CN=\\#1"),
        ("/CN=a=b#c", "CN=a\\=b\\#c"),
        ("/CN=  a  ", "CN=\\ \\ a\\ \\ "),
        # As the same certificates' getSubjectX500Principal().getName() has it.
        ("/CN=a/emailAddress=a@b.c", "1.2.840.113549.1.9.1=#16056140622e63,CN=a"),
    ],
)
def test_a_subject_is_written_as_java_writes_it(tmp_path: Path, asked: str, written: str) -> None:
    files = Authority(tmp_path).files("somebody", asked)

    assert subject(ssl.PEM_cert_to_DER_cert(Path(files.certificate).read_text())) == written


@pytest.mark.parametrize("data", [b"", b"0", b"not a certificate", b"0\x82\xff\xff" + b"0" * 64])
def test_what_is_no_certificate_is_refused(data: bytes) -> None:
    with pytest.raises(KafkaError, match="cannot be read"):
        subject(data)


@pytest.mark.parametrize(
    ("rules", "name"),
    [
        ("DEFAULT", SUBJECT),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,DEFAULT", SUBJECT),
        ("RULE:^CN=(.*?),OU=SME.*$/$1/", "kafka1"),
        ("RULE:^CN=(.*?),OU=(.*?),O=(.*?),.*$/$1@$2.$3/L", "kafka1@sme.mycp"),
        ("RULE:^cn=x$/$1/, RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U, DEFAULT", "KAFKA1"),
        ("RULE:^CN=(?<who>[^,]*),.*$/$1-$9/", "kafka1-$9"),
        ("RULE:.*/anybody/", "anybody"),
        ("RULE:CN=([^,]*),.*/a\\/$1/", "a/kafka1"),
    ],
)
def test_the_first_rule_that_fits_names_the_principal(rules: str, name: str) -> None:
    assert PrincipalRules(rules).principal(SUBJECT) == f"User:{name}"


def test_whom_no_rule_fits_is_not_let_in() -> None:
    with pytest.raises(KafkaError, match="No rules apply"):
        PrincipalRules("RULE:^CN=x$/x/").principal(SUBJECT)


@pytest.mark.parametrize("rules", ["default", "DEFAUL", "RULE:", "RULE:CN", "RULE:(/x/"])
def test_rules_out_of_form_stop_the_start(rules: str) -> None:
    with pytest.raises(ConfigError, match=r"ssl\.principal\.mapping\.rules"):
        PrincipalRules(rules)


@settings(deadline=None)
@given(st.text(max_size=60))
def test_rules_are_read_or_refused(text: str) -> None:
    with suppress(ConfigError):
        PrincipalRules(text)
