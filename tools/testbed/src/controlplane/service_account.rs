//! A caller with exactly the rights that a test gives it.

use std::path::PathBuf;

use anyhow::{Context, Result};
use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::ServiceAccount,
    rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject},
};
use kube::{
    Api,
    api::{ObjectMeta, Patch, PatchParams, PostParams},
};

use super::{ControlPlane, programs::ISSUER};

/// The namespace that the service accounts of tests live in.
const NAMESPACE: &str = "default";

/// One rule of a role.
pub fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> PolicyRule {
    let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
    PolicyRule {
        api_groups: Some(owned(&[group])),
        resources: Some(owned(resources)),
        verbs: owned(verbs),
        ..PolicyRule::default()
    }
}

impl ControlPlane {
    /// A kubeconfig of a service account that may do what `rules` say, in all namespaces, and no more.
    /// Called again with the same name, the rules are replaced.
    ///
    /// # Errors
    /// When the API server refuses any of it.
    pub async fn service_account_kubeconfig(
        &self,
        name: &str,
        rules: Vec<PolicyRule>,
    ) -> Result<PathBuf> {
        let token = self.service_account_token(name, rules).await?;
        self.kubeconfig(&token, None)
    }

    /// As [`service_account_kubeconfig`](Self::service_account_kubeconfig), giving the bare token.
    ///
    /// # Errors
    /// When the API server refuses any of it.
    pub async fn service_account_token(
        &self,
        name: &str,
        rules: Vec<PolicyRule>,
    ) -> Result<String> {
        let client = self.admin()?;
        let params = PatchParams::apply("testbed").force();
        let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };

        let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), NAMESPACE);
        let account = ServiceAccount { metadata: metadata.clone(), ..ServiceAccount::default() };
        accounts.patch(name, &params, &Patch::Apply(&account)).await?;

        self.set_rules(name, rules).await?;

        let bindings: Api<ClusterRoleBinding> = Api::all(client);
        let binding = ClusterRoleBinding {
            metadata,
            role_ref: RoleRef {
                api_group: "rbac.authorization.k8s.io".to_owned(),
                kind: "ClusterRole".to_owned(),
                name: name.to_owned(),
            },
            subjects: Some(vec![Subject {
                kind: "ServiceAccount".to_owned(),
                name: name.to_owned(),
                namespace: Some(NAMESPACE.to_owned()),
                ..Subject::default()
            }]),
        };
        bindings.patch(name, &params, &Patch::Apply(&binding)).await?;

        let request = TokenRequest {
            spec: TokenRequestSpec {
                audiences: vec![ISSUER.to_owned()],
                expiration_seconds: Some(24 * 3600),
                ..TokenRequestSpec::default()
            },
            ..TokenRequest::default()
        };
        let answer = accounts.create_token_request(name, &PostParams::default(), &request).await?;
        Ok(answer.status.context("a token request was answered without a token")?.token)
    }

    /// Gives such a service account further rights, in one namespace.
    ///
    /// # Errors
    /// When the API server refuses any of it.
    pub async fn grant(&self, name: &str, namespace: &str, rules: Vec<PolicyRule>) -> Result<()> {
        let client = self.admin()?;
        let params = PatchParams::apply("testbed").force();
        let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
        let role = Role { metadata: metadata.clone(), rules: Some(rules) };
        let in_namespace: Api<Role> = Api::namespaced(client.clone(), namespace);
        in_namespace.patch(name, &params, &Patch::Apply(&role)).await?;
        let binding = RoleBinding {
            metadata,
            role_ref: RoleRef {
                api_group: "rbac.authorization.k8s.io".to_owned(),
                kind: "Role".to_owned(),
                name: name.to_owned(),
            },
            subjects: Some(vec![Subject {
                kind: "ServiceAccount".to_owned(),
                name: name.to_owned(),
                namespace: Some(NAMESPACE.to_owned()),
                ..Subject::default()
            }]),
        };
        let bindings: Api<RoleBinding> = Api::namespaced(client, namespace);
        bindings.patch(name, &params, &Patch::Apply(&binding)).await?;
        Ok(())
    }

    /// Replaces the rules of such a service account, in all namespaces.
    ///
    /// # Errors
    /// When the API server refuses it.
    pub async fn set_rules(&self, name: &str, rules: Vec<PolicyRule>) -> Result<()> {
        let cluster_roles: Api<ClusterRole> = Api::all(self.admin()?);
        let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
        let role = ClusterRole { metadata, rules: Some(rules), ..ClusterRole::default() };
        let params = PatchParams::apply("testbed").force();
        cluster_roles.patch(name, &params, &Patch::Apply(&role)).await?;
        Ok(())
    }
}
