//! The command line of `titan kubernetes`.

use clap::Args;
use std::path::PathBuf;

pub(super) const AFTER_HELP: &str = "\
Examples:
  titan kubernetes                                     as a pod, by its service account
  titan kubernetes --kubeconfig ~/.kube/config --address 127.64.0.0/16
  titan kubernetes --address gateway.example.com titan.yaml

Gateways listen on all addresses of the machine, and share them: --address says what their statuses name. With a network of
this machine each has an address of its own there.

CONFIG has what the API of Kubernetes does not say: admin, limits, timeouts, access_log, log. docs/kubernetes.md tells more.";

/// How the API server is reached, and what is made of what it says.
#[derive(Debug, Args)]
pub(crate) struct KubernetesOptions {
    /// Settings of the gateway itself, YAML or JSON
    #[arg(value_name = "CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// How to reach the API server; default: $KUBECONFIG, ~/.kube/config, or the service account of the pod
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Read this namespace and no others; may be given several times
    #[arg(long, value_name = "NAME")]
    pub(crate) namespace: Vec<String>,
    /// The name by which a GatewayClass names this controller
    #[arg(long, value_name = "NAME", default_value = "titan.test/gateway")]
    pub(crate) controller_name: String,
    /// Where clients reach the gateways: addresses or names, or a network such as 127.64.0.0/16, a /16 at most
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) address: Vec<String>,
    /// Where to make the directory for certificates and keys; memory is best
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) directory: Option<PathBuf>,
}
