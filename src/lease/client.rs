//! The requests about Leases: one function for each, none of them tried again by itself.
//!
//! The client that is handed in must not retry either: a conditional write that is repeated blindly
//! can only lose, and an answer that comes late is worth less than the next attempt.

use std::time::Duration;

use kube::{
    Api, Client,
    api::{DeleteParams, PostParams, Preconditions},
};

use super::{Ask, Record, record::LeaseObject};
use crate::api::well_known::MANAGER;

/// What the API server said about a Lease.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The Lease as it is now.
    Is(Record),
    /// There is none.
    Absent,
    /// It is not what the request was made on: it changed, or there is one already.
    Conflict,
    /// The API server does not let us, with its words.
    Refused(String),
    /// It failed or said nothing in time; what was asked may have been done.
    Unanswered(String),
}

impl Answer {
    fn of(answer: kube::Result<LeaseObject>) -> Self {
        match answer {
            Ok(object) => Self::Is(Record::new(object)),
            Err(kube::Error::Api(status)) => match status.code {
                404 | 410 => Self::Absent,
                409 => Self::Conflict,
                401 | 403 | 422 | 400 => Self::Refused(status.message),
                _ => Self::Unanswered(status.message),
            },
            Err(error) => Self::Unanswered(error.to_string()),
        }
    }
}

/// The Leases of one namespace.
#[derive(Clone, Debug)]
pub struct LeaseClient {
    api: Api<LeaseObject>,
    attempt: Duration,
}

impl LeaseClient {
    /// Requests go through the client, and each takes at most `attempt`.
    pub fn new(client: Client, namespace: &str, attempt: Duration) -> Self {
        Self { api: Api::namespaced(client, namespace), attempt }
    }

    /// Carries out what a [`super::Keeper`] asks for.
    pub async fn ask(&self, name: &str, ask: &Ask) -> Answer {
        let parameters =
            PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
        match ask {
            Ask::Read => self.read(name).await,
            Ask::Create(object) => self.within(self.api.create(&parameters, object)).await,
            Ask::Replace(object) => self.within(self.api.replace(name, &parameters, object)).await,
        }
    }

    /// Reads a Lease.
    pub async fn read(&self, name: &str) -> Answer {
        self.within(self.api.get(name)).await
    }

    /// Deletes a Lease in the state that was read.
    pub async fn delete(&self, record: &Record) -> Answer {
        let parameters = DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some(record.uid().to_owned()),
                resource_version: Some(record.version().to_owned()),
            }),
            ..DeleteParams::default()
        };
        let deletion = async {
            let gone = self.api.delete(record.name(), &parameters).await?;
            Ok(gone.left().unwrap_or_else(|| record.object().clone()))
        };
        self.within(deletion).await
    }

    async fn within(&self, answer: impl Future<Output = kube::Result<LeaseObject>>) -> Answer {
        match tokio::time::timeout(self.attempt, answer).await {
            Ok(answer) => Answer::of(answer),
            Err(_) => Answer::Unanswered(format!("no answer within {:?}", self.attempt)),
        }
    }
}
