//! The three kinds on a control plane.

use std::time::Duration;

use address_controller::api::{crd, well_known};
use anyhow::Result;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, ResourceExt,
    api::{DynamicObject, ListParams, Patch, PatchParams},
    core::{ApiResource, GroupVersionKind},
};

use super::ControlPlane;
use crate::wait::try_eventually;

/// How long a definition may take to be served.
const SERVED: Duration = Duration::from_secs(30);

impl ControlPlane {
    /// Applies the three definitions and waits until all kinds are served.
    ///
    /// # Errors
    /// When they are refused, or not served in time.
    pub async fn install_crds(&self) -> Result<()> {
        install_crds(&self.admin()?).await
    }
}

/// Applies the three definitions to any cluster and waits until all kinds are served.
///
/// # Errors
/// When they are refused, or not served in time.
pub async fn install_crds(client: &Client) -> Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let params = PatchParams::apply("address-controller-install").force();
    for definition in crd::all() {
        definitions.patch(&definition.name_any(), &params, &Patch::Apply(&definition)).await?;
    }
    for definition in crd::all() {
        let name = definition.name_any();
        let what = format!("{name} to be established");
        try_eventually(SERVED, &what, || async {
            let stored = definitions.get(&name).await?;
            anyhow::ensure!(is_established(&stored), "conditions {:?}", stored.status);
            anyhow::Ok(())
        })
        .await?;
        let names = &definition.spec.names;
        let kind = GroupVersionKind::gvk(well_known::GROUP, well_known::VERSION, &names.kind);
        let resource = ApiResource::from_gvk_with_plural(&kind, &names.plural);
        let objects: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        let one = ListParams::default().limit(1);
        let what = format!("{name} to be served");
        try_eventually(SERVED, &what, || objects.list(&one)).await?;
    }
    Ok(())
}

fn is_established(definition: &CustomResourceDefinition) -> bool {
    let conditions = definition.status.iter().flat_map(|s| s.conditions.iter().flatten());
    conditions.into_iter().any(|c| c.type_ == "Established" && c.status == "True")
}
