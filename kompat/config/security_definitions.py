"""Settings of who is let in: TLS, SASL and the first users. Names, types and defaults are Kafka 4.3's.

Each may be given for one listener alone, as `listener.name.NAME.…`, and some of SASL for one mechanism of it, as
`listener.name.NAME.scram-sha-256.…`; the names are in lower case there.
"""

# fmt: off
SECURITY: tuple[tuple[str, str, str | None, str, str, str], ...] = (
    ("connection.failed.authentication.delay.ms", "int", "100", "0..", "", "How long an answer to wrong credentials is held back; then the connection is closed."),
    ("connections.max.reauth.ms", "long", "0", "", "", "How long a login counts, if that is more than 0: clients have to log in again before, on the same connection, or it is closed with their next request."),
    ("kompat.bootstrap.scram", "password", None, "", "", "Users that are made at the start where they do not exist, as `SCRAM-SHA-256=[name=admin,password=…]`, several after each other."),
    ("kompat.bootstrap.scram.file", "string", None, "", "", "A file with such users, one a line."),
    ("sasl.enabled.mechanisms", "list", "GSSAPI", "", "broker", "By what clients of SASL listeners may show who they are: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER. Kafka's default, GSSAPI, is not among them: they have to be named."),
    ("sasl.jaas.config", "password", None, "", "broker", "Users of PLAIN, as `org.apache.kafka.common.security.plain.PlainLoginModule required user_alice=\"…\";`. Users of the cluster may use PLAIN too, without standing here."),
    ("sasl.oauthbearer.clock.skew.seconds", "int", "30", "", "", "By how much clocks may differ where a token says from when until when it is valid."),
    ("sasl.oauthbearer.expected.audience", "list", "", "", "", "For whom tokens have to be meant (`aud`), one of these; empty for anybody."),
    ("sasl.oauthbearer.expected.issuer", "string", None, "", "", "Who has to have issued tokens (`iss`); unset for anybody whose key is known."),
    ("sasl.oauthbearer.jwks.endpoint.url", "string", None, "", "", "The keys that tokens are signed with, as a JSON Web Key Set in a file, `file:///…`; read again when it changes. kompat does not fetch it from elsewhere."),
    ("sasl.oauthbearer.sub.claim.name", "string", "sub", "", "", "The claim of a token that says who the client is."),
    ("sasl.server.callback.handler.class", "class", None, "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler|org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerValidatorCallbackHandler", "", "How tokens are checked: as Kafka's validator of signed tokens does, with or without this setting."),
    ("sasl.server.max.receive.size", "int", "524288", "", "", "The largest request of a client that has not logged in yet."),
    ("ssl.cipher.suites", "list", "", "", "broker", "The ciphers of TLS 1.2, by Java's or OpenSSL's names; empty for OpenSSL's choice. Those of TLS 1.3 are always on."),
    ("ssl.client.auth", "string", "none", "required|requested|none", "broker", "Whether clients have to show a certificate (`required`), may (`requested`), or are not asked. On SSL listeners its subject is their name."),
    ("ssl.enabled.protocols", "list", "TLSv1.2,TLSv1.3", "", "broker", "The versions of TLS that are spoken."),
    ("ssl.key.password", "password", None, "", "broker", "The password of the broker's private key, if it has one."),
    ("ssl.keystore.certificate.chain", "password", None, "", "broker", "The broker's certificate and those above it (PEM), instead of `ssl.keystore.location`."),
    ("ssl.keystore.key", "password", None, "", "broker", "The broker's private key (PEM), instead of `ssl.keystore.location`."),
    ("ssl.keystore.location", "string", None, "", "broker", "A file with the broker's private key, its certificate and those above it (PEM)."),
    ("ssl.keystore.type", "string", "JKS", "", "broker", "How `ssl.keystore.*` is written. kompat reads PEM, so it has to be set to that."),
    ("ssl.principal.mapping.rules", "string", "DEFAULT", "", "", "What the subjects of certificates are called: `RULE:pattern/replacement/[LU]`, the first that fits, or `DEFAULT` for the whole subject."),
    ("ssl.truststore.certificates", "password", None, "", "broker", "The certificates (PEM) of whoever signs those of clients, instead of `ssl.truststore.location`."),
    ("ssl.truststore.location", "string", None, "", "broker", "A file with the certificates (PEM) of whoever signs those of clients."),
    ("ssl.truststore.type", "string", "JKS", "", "broker", "How `ssl.truststore.*` is written. kompat reads PEM, so it has to be set to that."),
)
