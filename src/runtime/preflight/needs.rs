//! What the service account must be allowed to do, asked of the API server itself.

use super::{Client, join_all};
use crate::api::well_known::GROUP;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::{Api, api::PostParams};

/// (resource, sub-resource, verbs)
const NEEDS: &[(&str, &str, &[&str])] = &[
    ("ipaddressclasses", "", &["list", "watch"]),
    ("ipaddresses", "", &["get", "list", "watch", "patch", "delete"]),
    ("ipaddresses", "status", &["patch"]),
    ("ipaddressclaims", "", &["get", "list", "watch", "patch"]),
    ("ipaddressclaims", "status", &["patch"]),
];

/// The rights that are missing, as `verb resource`. What cannot be asked is taken to be allowed:
/// it will show when it is done.
pub(super) async fn not_allowed(client: &Client) -> Vec<String> {
    let asked = NEEDS.iter().flat_map(|(resource, sub, verbs)| {
        verbs.iter().map(move |verb| refused(client, verb, resource, sub))
    });
    join_all(asked).await.into_iter().flatten().collect()
}

async fn refused(client: &Client, verb: &str, resource: &str, sub: &str) -> Option<String> {
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
    let answer = api.create(&PostParams::default(), &review).await.ok()?.status?;
    let slash = if sub.is_empty() { "" } else { "/" };
    (!answer.allowed).then(|| format!("{verb} {resource}{slash}{sub}"))
}
