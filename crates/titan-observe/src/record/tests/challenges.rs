//! What is shown of challenges.

use super::*;

#[test]
fn a_challenge_is_no_secret_but_a_url_in_it_may_have_one() {
    let shown = |name: &str, value: &str| {
        let mut record = ExchangeRecord::default();
        record.set_response_head(&fields(&[(name.as_bytes(), value.as_bytes())]));
        let (kind, mut shown) = (CaptureKind::ResponseHeader, Vec::new());
        read(&record, |read| {
            let mut secrets = SecretNames::default();
            read.write_value(kind, &JudgedName::new(name), &mut secrets, &mut shown);
            assert_eq!(read.values(kind, &mut secrets).next().unwrap().value, shown);
        });
        String::from_utf8(shown).unwrap()
    };
    for challenge in [
        "ApiKey realm=\"keys\"",
        "Bearer realm=\"a\", error=\"invalid_token\"",
        "PrivateToken challenge=\"abc\", token-key=\"123\"",
        "Bearer authorization_uri=\"https://a.example/login\"",
    ] {
        assert_eq!(shown("Www-Authenticate", challenge), challenge);
        for name in ["Authorization", "Proxy-Authorization", "Authentication-Info"] {
            assert_eq!(shown(name, challenge), "***", "{name}");
        }
    }
    for url in ["https://a/?token=abc", "https://a/%3Ftoken%3Dabc", "https://u:abc@a/", "/#sid=abc"]
    {
        let challenge = format!("Bearer uri=\"{url}\"");
        assert_eq!(shown("WWW-Authenticate", &challenge), "***", "{url}");
    }
}
