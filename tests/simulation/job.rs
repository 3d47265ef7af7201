//! What one process runs, and the line that runs it again.

use std::time::Duration;

use crate::{
    run::{self, Outcome, Plan},
    scenario, seeds,
};

/// One run.
#[derive(Clone, Debug)]
pub enum Job {
    /// Everything that can go wrong, from a seed.
    Seed(Plan),
    /// What the model found, by its name.
    Scenario(String),
}

impl Job {
    /// As the command line has it.
    pub fn arguments(&self) -> Vec<String> {
        let text = match self {
            Self::Seed(Plan { seed, replicas, time, .. }) => {
                let minutes = minutes(*time);
                format!("--seed {seed} --replicas {replicas} --minutes {minutes}")
            }
            Self::Scenario(name) => format!("--scenario {name}"),
        };
        text.split(' ').map(str::to_owned).collect()
    }

    /// What it is called.
    pub fn name(&self) -> String {
        match self {
            Self::Seed(plan) => format!("seed {}", plan.seed),
            Self::Scenario(name) => format!("scenario {name}"),
        }
    }

    /// The line that does it again, with the revision of the sources.
    pub fn replay(&self) -> String {
        let (arguments, revision) = (self.arguments().join(" "), seeds::revision());
        format!("cargo xtask simulate {arguments} --trace # at {revision}")
    }

    /// The seed that everything in the process goes by.
    pub fn seed(&self) -> u64 {
        match self {
            Self::Seed(plan) => plan.seed,
            Self::Scenario(_) => 0,
        }
    }

    /// Runs it.
    pub async fn run(self, trace: bool) -> Outcome {
        match self {
            Self::Seed(plan) => run::run(Plan { trace, ..plan }).await,
            Self::Scenario(name) => scenario::run(&name, trace).await,
        }
    }
}

pub fn minutes(time: Duration) -> u64 {
    time.as_secs() / 60
}
