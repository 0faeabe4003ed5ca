//! Which claims a token must have: times, issuer, audience.

use super::*;

#[test]
fn times_are_looked_at_with_leeway() {
    let cases = [
        ("{\"exp\":1699999971}", Ok(())),
        ("{\"exp\":1699999970}", Err(Refusal::Expired)),
        ("{\"exp\":1699999970.5}", Ok(())),
        ("{\"exp\":0}", Err(Refusal::Expired)),
        ("{\"exp\":18446744073709551615}", Ok(())),
        ("{\"exp\":1e30}", Err(Refusal::Claim)),
        ("{\"exp\":-1}", Err(Refusal::Claim)),
        ("{\"exp\":\"1700000060\"}", Err(Refusal::Claim)),
        ("{\"exp\":null}", Err(Refusal::Claim)),
        ("{}", Err(Refusal::Claim)),
        ("{\"exp\":1700000060,\"nbf\":1700000030}", Ok(())),
        ("{\"exp\":1700000060,\"nbf\":1700000031}", Err(Refusal::Early)),
        ("{\"exp\":1700000060,\"iat\":1700000030}", Ok(())),
        ("{\"exp\":1700000060,\"iat\":1700000031}", Err(Refusal::Early)),
        ("{\"exp\":1700000060,\"iat\":\"now\"}", Err(Refusal::Claim)),
        ("{\"exp\":1700000060,\"nbf\":[]}", Err(Refusal::Claim)),
    ];
    for (claims, wanted) in cases {
        assert_eq!(judge(&secret(""), &token(claims)), wanted, "{claims}");
    }
    let strict = secret("leeway: 0s, max_age: 10m");
    let cases = [
        ("{\"exp\":1700000000,\"iat\":1700000000}", Err(Refusal::Expired)),
        ("{\"exp\":1700000001,\"iat\":1700000000}", Ok(())),
        ("{\"exp\":1700000001,\"iat\":1700000001}", Err(Refusal::Early)),
        ("{\"exp\":1700000001,\"iat\":1699999401}", Ok(())),
        ("{\"exp\":1700000001,\"iat\":1699999400}", Err(Refusal::Old)),
        ("{\"exp\":1700000001}", Err(Refusal::Old)),
    ];
    for (claims, wanted) in cases {
        assert_eq!(judge(&strict, &token(claims)), wanted, "{claims}");
    }
    let open = secret("require: []");
    let verified = open.verify(token("{}").as_bytes(), Duration::from_secs(NOW)).unwrap();
    assert!(verified.holds_at(Duration::from_secs(NOW * 2)));
}

#[test]
fn a_token_holds_for_as_long_as_it_says() {
    let policy = secret("leeway: 0s, max_age: 10s");
    let at = |claims| {
        let verified = policy.verify(token(claims).as_bytes(), Duration::from_secs(NOW)).unwrap();
        (verified.from.as_secs(), verified.until.as_secs())
    };
    assert_eq!(at("{\"exp\":1700000060,\"iat\":1699999995}"), (1_699_999_995, 1_700_000_005));
    assert_eq!(
        at("{\"exp\":1700000002,\"iat\":1699999995,\"nbf\":1699999999}"),
        (1_699_999_999, 1_700_000_002)
    );
}

#[test]
fn a_token_is_for_its_audience() {
    let listed =
        "providers: { audience: [api, shop], algorithms: HS256, keys: { secret_file: k } }";
    let listed = policy(listed, std::str::from_utf8(SECRET).unwrap());
    let cases = [
        ("\"api\"", true),
        ("[\"shop\"]", true),
        ("[\"other\",\"shop\"]", true),
        ("\"other\"", false),
        ("\"ap\"", false),
        ("\"api \"", false),
        ("\"API\"", false),
        ("[]", false),
        ("[\"other\"]", false),
        ("[\"api\",1]", false),
        ("[[\"api\"]]", false),
        ("{\"api\":1}", false),
        ("null", false),
        ("true", false),
    ];
    for (audience, good) in cases {
        let token = token(&format!("{{\"exp\":1700000060,\"aud\":{audience}}}"));
        let wanted = if good { Ok(()) } else { Err(Refusal::Audience) };
        assert_eq!(judge(&listed, &token), wanted, "{audience}");
        // A policy without an audience is in none.
        assert_eq!(judge(&secret(""), &token), Err(Refusal::Audience), "{audience}");
    }
    assert_eq!(judge(&listed, &token(GOOD)), Err(Refusal::Audience));
}

#[test]
fn each_issuer_has_its_keys() {
    let fields = "providers: [\
        { issuer: one, algorithms: HS256, keys: { secret_file: k } }, \
        { issuer: two, algorithms: HS256, keys: { secret: 'the secret of the other one, who is not the first' } }]";
    let policy = policy(fields, std::str::from_utf8(SECRET).unwrap());
    let from = |issuer: &str| token(&format!("{{\"exp\":1700000060,\"iss\":{issuer}}}"));
    assert_eq!(judge(&policy, &from("\"one\"")), Ok(()));
    assert_eq!(judge(&policy, &from("\"two\"")), Err(Refusal::Signature));
    for issuer in ["\"three\"", "\"one/\"", "\"ONE\"", "[\"one\"]", "null", "{}"] {
        assert_eq!(judge(&policy, &from(issuer)), Err(Refusal::Issuer), "{issuer}");
    }
    assert_eq!(judge(&policy, &token(GOOD)), Err(Refusal::Issuer));
}

#[test]
fn tokens_for_other_purposes_are_kept_out() {
    let policy = secret("types: [at+jwt]");
    let of = |kind: &str| {
        judge(&policy, &token_as("HS256", &format!("{{\"alg\":\"HS256\"{kind}}}"), GOOD))
    };
    assert_eq!(of(",\"typ\":\"at+jwt\""), Ok(()));
    assert_eq!(of(",\"typ\":\"application/AT+JWT\""), Ok(()));
    for kind in [",\"typ\":\"JWT\"", "", ",\"typ\":\"application/x/at+jwt\"", ",\"typ\":\"\""] {
        assert_eq!(of(kind), Err(Refusal::Type), "{kind}");
    }
}

#[test]
fn claims_are_passed_on_as_they_are_or_not_at_all() {
    let policy = secret("headers: { X-A: a, X-B: /b/c, X-D: 'https://d.example/roles' }");
    let told = |claims: &str| {
        let text = token(&format!("{{\"exp\":1700000060,{claims}}}"));
        let verified = policy.verify(text.as_bytes(), Duration::from_secs(NOW))?;
        let shown = |(place, value): &(usize, Box<[u8]>)| {
            format!("{place}={}", String::from_utf8(value.to_vec()).unwrap())
        };
        Ok::<_, Refusal>(verified.fields.iter().map(shown).collect::<Vec<_>>().join(" "))
    };
    let good = [
        ("\"a\":\"x\"", "0=x"),
        ("\"a\":7,\"b\":{\"c\":true}", "0=7 1=true"),
        ("\"a\":null,\"b\":{\"c\":[\"x\",\"y\",3]}", "1=x,y,3"),
        ("\"b\":\"c\"", ""),
        ("\"b\":{},\"https://d.example/roles\":[]", "2="),
        ("\"a\":\"é\"", "0=é"),
    ];
    for (claims, wanted) in good {
        assert_eq!(told(claims), Ok(wanted.to_owned()), "{claims}");
    }
    for claims in [
        "\"a\":\"x\\r\\nX-Admin: 1\"",
        "\"a\":\"x\\u0000\"",
        "\"a\":\" x\"",
        "\"a\":{\"x\":1}",
        "\"a\":[\"x,admin\"]",
        "\"a\":[[\"x\"]]",
        "\"a\":[\"\"]",
    ] {
        assert_eq!(told(claims), Err(Refusal::Claim), "{claims}");
    }
}
