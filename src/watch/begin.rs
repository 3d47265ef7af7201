//! Hears that a watch has begun: kube's stream says nothing of it before an object changes, and a
//! cluster may be quiet for hours.

use std::sync::Arc;

use http::Request;
use kube::Client;
use kube::client::Body;
use tokio::sync::Notify;
use tower::service_fn;

/// The same client, which also says when the API server grants a watch.
pub(super) fn heard(client: Client, begun: &Arc<Notify>) -> Client {
    let namespace = client.default_namespace().to_owned();
    let begun = Arc::clone(begun);
    let service = service_fn(move |request: Request<Body>| {
        let (client, begun) = (client.clone(), Arc::clone(&begun));
        async move {
            let watch = is_watch(&request);
            let answer = client.send(request).await?;
            if watch && answer.status().is_success() {
                begun.notify_one();
            }
            Ok::<_, kube::Error>(answer)
        }
    });
    Client::new(service, namespace)
}

fn is_watch(request: &Request<Body>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    query.split('&').any(|part| part.split('=').next() == Some("watch"))
}
