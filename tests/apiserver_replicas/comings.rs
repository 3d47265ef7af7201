//! Replicas that come and go while there is work.

use address_controller::api::AddressPhase;
use testbed::controlplane::ADMIN_TOKEN;

use crate::fleet::{Fleet, names};

/// Three start on an empty cluster at once: one leads, and together they hold every bucket once.
#[tokio::test(flavor = "multi_thread")]
async fn three_that_start_together_share_everything() {
    let fleet = Fleet::of("together", 3).await;
    let mut held = 0.0;
    for replica in &fleet.replicas {
        let buckets = replica.controller().metric("address_controller_buckets_held", &[]).await;
        held += buckets.unwrap().unwrap_or_default();
        let members = replica.controller().metric("address_controller_members", &[]).await;
        assert_eq!(members.unwrap(), Some(3.0));
    }
    assert!((held - 256.0).abs() < f64::EPSILON, "{held}");
    fleet.check().await;
}

/// A member that goes and one that comes while many claims wait: each is served, once.
#[tokio::test(flavor = "multi_thread")]
async fn members_come_and_go_in_the_middle_of_waiting_claims() {
    const COUNT: usize = 300;
    let mut fleet = Fleet::of("waiting", 3).await;
    fleet.class("public").await.unwrap();
    fleet.claims_of("c", COUNT).await;
    fleet.replicas[0].kill();
    fleet.addresses_of(COUNT / 3).await;
    fleet.add(ADMIN_TOKEN).start();
    fleet.bound(COUNT / 3).await;
    fleet.replicas[1].controller().ask_to_stop();
    for n in COUNT / 3..COUNT {
        let ip = format!("10.0.{}.{}", n / 250, n % 250);
        fleet.address(&format!("a{n:04}"), "public", &ip).await.unwrap();
    }
    fleet.replicas[1].join();
    fleet.bound(COUNT).await;
    fleet.settle().await;
    fleet.check().await;
}

/// One that comes and goes without pause, under a name of its own each time.
#[tokio::test(flavor = "multi_thread")]
async fn a_flapping_member_leaves_no_claim_unserved() {
    let mut fleet = Fleet::of("flapping", 2).await;
    fleet.class("public").await.unwrap();
    fleet.addresses_of(40).await;
    for round in 0..4 {
        let place = fleet.replicas.len();
        fleet.add(ADMIN_TOKEN).start();
        fleet.settle().await;
        fleet.claims_of(&format!("r{round}-"), 10).await;
        if round % 2 == 0 {
            fleet.replicas[place].kill();
        } else {
            fleet.replicas[place].controller().ask_to_stop();
            fleet.replicas[place].join();
        }
        fleet.bound((round + 1) * 10).await;
    }
    fleet.settle().await;
    fleet.check().await;
}

/// All are killed at once, and others come in their place: those were waited for like the dead they
/// are, and then everything goes on.
#[tokio::test(flavor = "multi_thread")]
async fn all_are_killed_at_once_and_others_come_back() {
    let mut fleet = Fleet::of("all-killed", 3).await;
    fleet.class("public").await.unwrap();
    fleet.addresses_of(10).await;
    fleet.address_is("a0009", AddressPhase::Available).await;
    fleet.replicas.iter_mut().for_each(crate::fleet::Replica::kill);
    fleet.claims_of("c", 10).await;
    for _ in 0..3 {
        fleet.add(ADMIN_TOKEN).start();
    }
    fleet.bound(10).await;
    let shard = fleet.settle().await;
    assert_eq!(names(&shard), ["replica-3", "replica-4", "replica-5"]);
    fleet.check().await;
}

/// Two installations over one cluster know nothing of each other. Each does all the work, and what
/// they do twice is refused once.
#[tokio::test(flavor = "multi_thread")]
async fn two_releases_over_one_cluster_bind_each_claim_once() {
    let mut fleet = Fleet::of("releases", 2).await;
    fleet.flag("--release=other");
    fleet.add(ADMIN_TOKEN).start();
    fleet.replicas[2].controller_mut().wait_ready().await.unwrap();
    assert_eq!(names(&fleet.replicas[0].shard().await.unwrap()), ["replica-0", "replica-1"]);
    assert_eq!(names(&fleet.replicas[2].shard().await.unwrap()), ["replica-2"]);
    fleet.class("public").await.unwrap();
    fleet.addresses_of(40).await;
    fleet.claims_of("c", 40).await;
    fleet.bound(40).await;
    fleet.check().await;
}
