//! At rest nothing is written, whatever restarts.

use address_controller::api::{AddressPhase, ClaimFamily, ClaimPhase};
use testbed::{
    eventually,
    make::{self, MakeAddress, MakeClaim},
};

use crate::support::{Bench, PATIENCE};

/// Claims and addresses in every phase, and the controller started over them: not one write.
#[tokio::test]
async fn a_restart_over_settled_objects_writes_nothing() {
    let mut bench = Bench::running("settled", &[]).await;
    settle(&bench).await;
    bench.at_rest().await;
    let status = bench.controller_mut().sigterm(PATIENCE).unwrap();
    assert!(status.success(), "{status}");
    bench.proxy.forget_requests();
    bench.start().await;
    eventually(PATIENCE, "a pass over each object", || async {
        let passes = bench.controller().metric("address_controller_passes_total", &[]).await?;
        let depth = bench.controller().metric("address_controller_queue_depth", &[]).await?;
        anyhow::ensure!(passes >= Some(12.0) && depth == Some(0.0), "{passes:?}, {depth:?}");
        Ok(())
    })
    .await;
    bench.at_rest().await;
    let writes: Vec<_> = bench.writes().into_iter().map(|r| (r.path, r.body)).collect();
    assert!(writes.is_empty(), "{writes:#?}");
    bench.history().await.assert_clean();
}

async fn settle(bench: &Bench) {
    bench.bound().await;
    // Released, invalid, reserved, the driver's two phases, and one that somebody wants gone.
    bench.address("a2", "public", "192.0.2.2").await.unwrap();
    bench.address_is("a2", AddressPhase::Available).await;
    bench.claim("brief", "public").await.unwrap();
    bench.claim_is("brief", ClaimPhase::Bound).await;
    bench.delete_claim("brief").await;
    bench.address_is("a2", AddressPhase::Released).await;
    bench.address("a3", "public", "192.0.2.3/32").await.unwrap();
    bench.address_is("a3", AddressPhase::Pending).await;
    let reserved = make::address(&bench.name("a4"), &bench.name("public"), "192.0.2.4");
    bench.create(&reserved.reserved_for(bench.namespace(), "later")).await.unwrap();
    bench.address_is("a4", AddressPhase::Pending).await;
    for (short, ip, phase) in [("a5", "192.0.2.5", "Conflict"), ("a6", "192.0.2.6", "Lost")] {
        bench.address(short, "public", ip).await.unwrap();
        bench.address_is(short, AddressPhase::Available).await;
        bench.drive(short, serde_json::json!({ "phase": phase })).await;
    }
    bench.delete_address("a1").await;
    // Waiting for a class, for a driver, for an address, and for the other family.
    let waiting = [
        make::claim(bench.namespace(), "no-class", &bench.name("absent")),
        make::claim(bench.namespace(), "no-default", "").without_class(),
        make::claim(bench.namespace(), "pinned", &bench.name("public")).pinned_to("absent"),
        make::claim(bench.namespace(), "both", &bench.name("public")).family(ClaimFamily::Dual),
    ];
    for claim in waiting {
        bench.create(&claim).await.unwrap();
        bench.claim_is(claim.metadata.name.as_deref().unwrap(), ClaimPhase::Pending).await;
    }
}
