//! The process as a whole, with its surroundings handed in.

use std::{future::pending, time::Duration};

use futures::channel::mpsc::unbounded;
use http::StatusCode;
use k8s_openapi::api::core::v1::ObjectReference;
use serde_json::json;

use super::*;
use crate::telemetry::{
    Note, NoteType,
    fake_api::{self, Asked},
};

fn settings() -> Settings {
    let flags = ["--metrics-bind-address=0", "--health-probe-bind-address=0"];
    Settings::from_flags(flags).expect("good flags")
}

/// A server without anything in the way.
fn healthy(asked: &Asked) -> (u16, serde_json::Value) {
    match asked.path.as_str() {
        "/version" => (
            200,
            json!({
                "major": "1", "minor": "36", "gitVersion": "v1.36.3", "buildDate": "", "compiler": "",
                "gitCommit": "", "gitTreeState": "", "goVersion": "", "platform": "",
            }),
        ),
        path if path.contains("/events") => (201, asked.body.clone()),
        _ => (200, json!({"metadata": {}, "items": []})),
    }
}

/// The whole life of a process: nothing is controlled before the way is clear, readiness is the
/// controllers' to say, and what they say last is still sent.
#[tokio::test]
async fn controllers_start_when_the_way_is_clear_and_end_before_what_they_rely_on() {
    let (client, record) = fake_api::client(healthy);
    let (signal, signals) = unbounded();
    let asked = Arc::clone(&record);
    let controllers = move |context: Context| {
        assert!(asked.lock().iter().any(|a| a.path == "/version"), "preflight comes first");
        let verdict = context.health.verdict();
        assert_eq!((verdict.ready, verdict.reason.contains("reading")), (false, true));
        vec![Task::new("claims", async move {
            context.health.set_ready("serving");
            assert!(context.health.verdict().ready);
            signal.unbounded_send(Signal::Terminate)?;
            context.stop.cancelled().await;
            assert!(!context.health.verdict().ready);
            context.events.publish(Note {
                regarding: ObjectReference::default(),
                related: None,
                type_: NoteType::Normal,
                reason: "Matched",
                action: "Match",
                note: "the last words".into(),
            });
            Ok(())
        })]
    };
    let ending =
        serve(settings(), Clients::same(client), signals, controllers).await.expect("it starts");
    assert_eq!(ending, Ending::Stopped);
    assert_eq!(record.lock().last().map(|a| a.body["note"].clone()), Some("the last words".into()));
}

/// Without the way being clear no controller is made, and a signal ends the wait.
#[tokio::test(start_paused = true)]
async fn a_signal_ends_the_wait_for_the_api_server() {
    let (client, record) = fake_api::client(|_| (StatusCode::BAD_GATEWAY.as_u16(), json!("no")));
    let (signal, signals) = unbounded();
    let tell = async {
        while record.lock().len() < 3 {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        signal.unbounded_send(Signal::Interrupt).expect("sent");
    };
    let serve =
        serve(settings(), Clients::same(client), signals, |_| panic!("the way is not clear"));
    let (ending, ()) = tokio::join!(serve, tell);
    assert_eq!(ending.expect("it starts"), Ending::Stopped);
}

#[tokio::test]
async fn a_controller_that_dies_ends_the_process() {
    let (client, _) = fake_api::client(healthy);
    let (_signal, signals) = unbounded();
    let ending = serve(settings(), Clients::same(client), signals, |_| {
        let dies = async { Err(anyhow::anyhow!("IPAddressClaim t1/web: half a state")) };
        vec![Task::new("addresses", pending()), Task::new("claims", dies)]
    });
    let died =
        Ending::Died { task: "claims".into(), why: "IPAddressClaim t1/web: half a state".into() };
    assert_eq!(ending.await.expect("it starts"), died);
}

/// A program that controls nothing is still told to stop, and does not die of having no work.
#[tokio::test]
async fn without_controllers_it_waits_to_be_told_to_stop() {
    let (client, _) = fake_api::client(healthy);
    let (signal, signals) = unbounded();
    let ending = serve(settings(), Clients::same(client), signals, move |_| {
        signal.unbounded_send(Signal::Terminate).expect("sent");
        Vec::new()
    });
    assert_eq!(ending.await.expect("it starts"), Ending::Stopped);
}
