"""Security settings: TLS, SASL and the first users. Names, types and defaults are Kafka 4.3's.

Each may be set for one listener, as `listener.name.NAME.…`, and some of SASL for one mechanism of it, as
`listener.name.NAME.scram-sha-256.…`; listener names are in lower case there.
"""

# fmt: off
SECURITY: tuple[tuple[str, str, str | None, str, str, str], ...] = (
    ("connection.failed.authentication.delay.ms", "int", "100", "0..", "", "The delay of the response to a failed authentication; then the broker closes the connection."),
    ("connections.max.reauth.ms", "long", "0", "", "", "The maximum lifetime of an authentication, if it is more than 0: clients have to re-authenticate on the same connection before it ends, or the broker closes the connection at the next request."),
    ("kompat.bootstrap.scram", "password", None, "", "", "SCRAM users that the broker creates at the start if they do not exist, as `SCRAM-SHA-256=[name=admin,password=…]`; several may be given."),
    ("kompat.bootstrap.scram.file", "string", None, "", "", "A file with such users, one on each line."),
    ("sasl.enabled.mechanisms", "list", "GSSAPI", "", "broker", "The SASL mechanisms of SASL listeners: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER. Kafka's default, GSSAPI, is not supported, so this must be set."),
    ("sasl.jaas.config", "password", None, "", "broker", "PLAIN users, as `org.apache.kafka.common.security.plain.PlainLoginModule required user_alice=\"…\";`. Users of the cluster may use PLAIN, too, and need not be listed."),
    ("sasl.oauthbearer.clock.skew.seconds", "int", "30", "", "", "The allowed clock skew for the validity period of tokens."),
    ("sasl.oauthbearer.expected.audience", "list", "", "", "", "The expected audiences (`aud`) of tokens: one of these must match; if empty, any audience is accepted."),
    ("sasl.oauthbearer.expected.issuer", "string", None, "", "", "The expected issuer (`iss`) of tokens; if unset, any issuer with a known key is accepted."),
    ("sasl.oauthbearer.jwks.endpoint.refresh.ms", "long", "3600000", "", "", "The maximum age of keys that were fetched by https; the first login after it fetches them again."),
    ("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", "long", "10000", "", "", "The maximum back-off after a failed fetch of keys."),
    ("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", "long", "100", "", "", "The back-off after the first failed fetch of keys; it doubles with every further failure."),
    ("sasl.oauthbearer.jwks.endpoint.url", "string", None, "", "", "The keys that tokens are signed with, as a JSON Web Key Set: `file:///…`, read again when it changes, or `https://…`. OAUTHBEARER needs `pip install 'kompat[oauth]'`."),
    ("sasl.oauthbearer.scope.claim.name", "string", "scope", "", "", "The claim of a token that has its scopes. They must be well-formed; they grant nothing."),
    ("sasl.oauthbearer.sub.claim.name", "string", "sub", "", "", "The claim of a token that has the client's principal."),
    ("sasl.server.callback.handler.class", "class", None, "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler|org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerValidatorCallbackHandler", "", "The validator of tokens. Signatures are always validated, as by Kafka's validator for signed tokens."),
    ("sasl.server.max.receive.size", "int", "524288", "", "", "The maximum size of a request before authentication."),
    ("ssl.cipher.suites", "list", "", "", "broker", "The cipher suites of TLS 1.2, by Java or OpenSSL names; if empty, OpenSSL's defaults. Those of TLS 1.3 are always enabled."),
    ("ssl.client.auth", "string", "none", "required|requested|none", "broker", "Whether clients must (`required`), may (`requested`) or need not (`none`) present a certificate. On SSL listeners its subject is the client's principal."),
    ("ssl.enabled.protocols", "list", "TLSv1.2,TLSv1.3", "", "broker", "The enabled TLS versions."),
    ("ssl.key.password", "password", None, "", "broker", "The password of the broker's private key, if it has one."),
    ("ssl.keystore.certificate.chain", "password", None, "", "broker", "The broker's certificate and the intermediate certificates (PEM), instead of `ssl.keystore.location`."),
    ("ssl.keystore.key", "password", None, "", "broker", "The broker's private key (PEM), instead of `ssl.keystore.location`."),
    ("ssl.keystore.location", "string", None, "", "broker", "A file with the broker's private key, its certificate and the intermediate certificates (PEM)."),
    ("ssl.keystore.type", "string", "JKS", "", "broker", "The format of `ssl.keystore.*`. kompat supports only PEM, so this must be set to PEM."),
    ("ssl.principal.mapping.rules", "string", "DEFAULT", "", "", "The rules that map the subject of a certificate to a principal: the first matching `RULE:pattern/replacement/[LU]`, or `DEFAULT` for the whole subject."),
    ("ssl.truststore.certificates", "password", None, "", "broker", "The certificate authorities (PEM) of clients' certificates, instead of `ssl.truststore.location`."),
    ("ssl.truststore.location", "string", None, "", "broker", "A file with the certificate authorities (PEM) of clients' certificates."),
    ("ssl.truststore.type", "string", "JKS", "", "broker", "The format of `ssl.truststore.*`. kompat supports only PEM, so this must be set to PEM."),
)
