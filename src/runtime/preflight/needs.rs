//! What the service account must be allowed to do, asked of the API server itself.

use futures::future::join_all;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::{Api, Client, api::PostParams};

use crate::api::well_known::GROUP;

/// (resource, sub-resource, verbs)
const NEEDS: &[(&str, &str, &[&str])] = &[
    ("ipaddressclasses", "", &["list", "watch"]),
    ("ipaddresses", "", &["get", "list", "watch", "patch", "delete"]),
    ("ipaddresses", "status", &["patch"]),
    ("ipaddressclaims", "", &["get", "list", "watch", "patch"]),
    ("ipaddressclaims", "status", &["patch"]),
];

/// The rights that are missing, as `resource (verb, verb)`. What cannot be asked is taken to be
/// allowed: it will show when it is done.
pub(super) async fn not_allowed(client: &Client) -> Vec<String> {
    let asked = NEEDS.iter().map(async |(resource, sub, verbs)| {
        let answers = join_all(verbs.iter().map(|verb| is_refused(client, verb, resource, sub)));
        let verdicts = verbs.iter().zip(answers.await);
        let refused: Vec<&str> = verdicts.filter(|(_, no)| *no).map(|(verb, _)| *verb).collect();
        let slash = if sub.is_empty() { "" } else { "/" };
        (!refused.is_empty()).then(|| format!("{resource}{slash}{sub} ({})", refused.join(", ")))
    });
    join_all(asked).await.into_iter().flatten().collect()
}

async fn is_refused(client: &Client, verb: &str, resource: &str, sub: &str) -> bool {
    let api: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let attributes = ResourceAttributes {
        group: Some(GROUP.to_owned()),
        resource: Some(resource.to_owned()),
        subresource: Some(sub.to_owned()).filter(|s| !s.is_empty()),
        verb: Some(verb.to_owned()),
        ..ResourceAttributes::default()
    };
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(attributes),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let answer = api.create(&PostParams::default(), &review).await.ok();
    answer.and_then(|review| review.status).is_some_and(|status| !status.allowed)
}
