package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

const (
	// readyWithin bounds the time from the start of both processes to an API server that says that it is ready.
	readyWithin = 20 * time.Second
	// tryEvery is how long to wait before asking it again.
	tryEvery = 50 * time.Millisecond

	etcdURL = "http://127.0.0.1:2379"
	peerURL = "http://127.0.0.1:2380"
	port    = "6443"
	server  = "https://127.0.0.1:" + port
)

// A Cluster is etcd and a kube-apiserver. There is one in each network namespace, for its ports are always the same.
type Cluster struct {
	// Config is that of an administrator.
	Config *rest.Config
	// Kubeconfig is the file that says the same.
	Kubeconfig string

	folder    string
	authority *authority
	processes []*process
}

// Start returns once the API server is ready. Files are written to the folder, programs are looked for as Program says.
func Start(folder string) (*Cluster, error) {
	authority, err := newAuthority()
	if err != nil {
		return nil, err
	}
	cluster := &Cluster{folder: folder, authority: authority}
	if err := cluster.start(); err != nil {
		cluster.Stop()
		return nil, err
	}
	return cluster, nil
}

// Stop ends both processes, the last one first.
func (c *Cluster) Stop() {
	for index := len(c.processes) - 1; index >= 0; index-- {
		c.processes[index].stop()
	}
	c.processes = nil
}

// Program is where scripts/install-kubernetes-peers.sh has put it.
func Program(name string) (string, error) {
	folder := os.Getenv("TITAN_KUBERNETES")
	if folder == "" {
		return "", errors.New("TITAN_KUBERNETES does not name the folder that scripts/install-kubernetes-peers.sh fills")
	}
	path := filepath.Join(folder, name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%w: scripts/install-kubernetes-peers.sh puts it there", err)
	}
	return path, nil
}

// UserKubeconfig writes the file of a user who is in the groups: RBAC decides what it is good for.
func (c *Cluster) UserKubeconfig(user string, groups ...string) (string, error) {
	signed, err := c.authority.client(user, groups...)
	if err != nil {
		return "", err
	}
	config := api.NewConfig()
	config.Clusters["cluster"] = &api.Cluster{Server: server, CertificateAuthorityData: c.authority.pem()}
	config.AuthInfos[user] = &api.AuthInfo{ClientCertificateData: signed.certificate, ClientKeyData: signed.key}
	config.Contexts["cluster"] = &api.Context{Cluster: "cluster", AuthInfo: user}
	config.CurrentContext = "cluster"
	path := c.path(user + ".kubeconfig")
	return path, clientcmd.WriteToFile(*config, path)
}

func (c *Cluster) start() error {
	if err := c.writeCertificates(); err != nil {
		return err
	}
	deadline := time.Now().Add(readyWithin)
	if err := c.run("etcd", c.etcdArguments()); err != nil {
		return err
	}
	if err := c.run("kube-apiserver", c.serverArguments()); err != nil {
		return err
	}
	return c.awaitReady(deadline)
}

func (c *Cluster) writeCertificates() error {
	names := []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"}
	served, err := c.authority.server(names, "127.0.0.1", serviceAddress)
	if err != nil {
		return err
	}
	kubelet, err := c.authority.client("kube-apiserver", "system:masters")
	if err != nil {
		return err
	}
	tokens, err := newKey()
	if err != nil {
		return err
	}
	if err := write(map[string][]byte{
		c.path("authority.pem"): c.authority.pem(),
		c.path("server.pem"):    served.certificate,
		c.path("server.key"):    served.key,
		c.path("kubelet.pem"):   kubelet.certificate,
		c.path("kubelet.key"):   kubelet.key,
		c.path("tokens.key"):    tokens,
	}); err != nil {
		return err
	}
	c.Kubeconfig, err = c.UserKubeconfig("admin", "system:masters")
	if err != nil {
		return err
	}
	c.Config, err = clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	if err != nil {
		return err
	}
	// The client's own limits are for sparing a server that others need as well.
	c.Config.QPS = -1
	return nil
}

func (c *Cluster) etcdArguments() []string {
	return []string{
		"--data-dir=" + c.path("etcd"),
		"--listen-client-urls=" + etcdURL,
		"--advertise-client-urls=" + etcdURL,
		"--listen-peer-urls=" + peerURL,
		"--initial-advertise-peer-urls=" + peerURL,
		"--initial-cluster=default=" + peerURL,
		"--logger=zap",
		"--log-level=warn",
	}
}

func (c *Cluster) serverArguments() []string {
	return []string{
		"--etcd-servers=" + etcdURL,
		"--bind-address=127.0.0.1",
		"--secure-port=" + port,
		// The address of the service `kubernetes`, which nothing here connects to, may not be a loopback one.
		"--advertise-address=" + NodeAddress,
		"--endpoint-reconciler-type=none",
		"--service-cluster-ip-range=" + serviceAddresses,
		"--authorization-mode=RBAC",
		"--client-ca-file=" + c.path("authority.pem"),
		"--tls-cert-file=" + c.path("server.pem"),
		"--tls-private-key-file=" + c.path("server.key"),
		"--kubelet-client-certificate=" + c.path("kubelet.pem"),
		"--kubelet-client-key=" + c.path("kubelet.key"),
		"--kubelet-preferred-address-types=InternalIP",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + c.path("tokens.key"),
		"--service-account-signing-key-file=" + c.path("tokens.key"),
		"--profiling=false",
	}
}

func (c *Cluster) run(name string, arguments []string) error {
	program, err := Program(name)
	if err != nil {
		return err
	}
	process, err := start(c.path(name+".log"), program, arguments...)
	if err != nil {
		return err
	}
	c.processes = append(c.processes, process)
	return nil
}

// awaitReady gives up at the deadline, or when one of the processes has.
func (c *Cluster) awaitReady(deadline time.Time) error {
	client, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	for {
		err := client.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
		if err == nil {
			return nil
		}
		for _, process := range c.processes {
			select {
			case <-process.ended:
				return process.failure("has ended")
			default:
			}
		}
		select {
		case <-time.After(tryEvery):
		case <-ctx.Done():
			return errors.Join(err, c.processes[len(c.processes)-1].failure(fmt.Sprint("is not ready after ", readyWithin)))
		}
	}
}

func (c *Cluster) path(name string) string { return filepath.Join(c.folder, name) }
