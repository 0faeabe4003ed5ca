//! What requests with tokens cost.

use super::*;
use crate::trial::Asker;
use titan_http::RequestHead;

/// A token for as long as anybody runs this.
const LASTING: &str = "{\"exp\":9999999999}";

/// What policies find out about a request with that token.
fn found(policy: &Jwt, token: &str, tokens: &Caches) -> Findings {
    let (mut request, mut findings) = (RequestHead::default(), Findings::default());
    let shown = format!("Bearer {token}");
    request.fields.append(FieldName::Authorization, shown.as_bytes()).unwrap();
    let asker = Asker::at("");
    let mut context = asker.context(&mut request, &mut findings);
    policy.admit(&mut context, tokens, &JwtCells::default()).unwrap();
    findings
}

#[tokio::test(start_paused = true)]
async fn requests_with_a_known_token_touch_no_count_that_workers_share() {
    let (policy, tokens) = (with("HS256", "jwks", &set(&[jwk("HS256", "")])), Caches::default());
    let known = found(&policy, &token(LASTING), &tokens).token.unwrap();
    let shared = Arc::strong_count(&policy.told_in);
    let again = found(&policy, &token(LASTING), &tokens).token.unwrap();
    assert!(Rc::ptr_eq(&known, &again));
    assert_eq!(Arc::strong_count(&policy.told_in), shared);
}
