//! What the service account must be allowed to do, asked of the API server itself.

use futures::future::join_all;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::{Api, Client, api::PostParams};

use crate::rights::{CLUSTER, Right};

/// The rights that are missing, as `resource (verb, verb)`. What cannot be asked is taken to be
/// allowed: it will show when it is done.
pub(super) async fn not_allowed(client: &Client) -> Vec<String> {
    let asked = CLUSTER.iter().filter(|right| right.needed).map(async |right| {
        let answers = join_all(right.verbs.iter().map(|verb| is_refused(client, right, verb)));
        let verdicts = right.verbs.iter().zip(answers.await);
        let refused: Vec<&str> = verdicts.filter(|(_, no)| *no).map(|(verb, _)| *verb).collect();
        (!refused.is_empty()).then(|| format!("{} ({})", right.resource, refused.join(", ")))
    });
    join_all(asked).await.into_iter().flatten().collect()
}

async fn is_refused(client: &Client, right: &Right, verb: &str) -> bool {
    let api: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let (resource, sub) = match right.resource.split_once('/') {
        Some((resource, sub)) => (resource, Some(sub)),
        None => (right.resource, None),
    };
    let attributes = ResourceAttributes {
        group: Some(right.group.to_owned()),
        resource: Some(resource.to_owned()),
        subresource: sub.map(str::to_owned),
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
