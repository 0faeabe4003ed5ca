package standin

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"titan.test/kubernetes/cluster"
)

const (
	echoImage = "/echo-basic:"
	echoPort  = "3000"
	// dialEvery is how often a port is tried that nobody listens at yet.
	dialEvery = 20 * time.Millisecond
	// dialWithin bounds each try.
	dialWithin = time.Second
	// printWithin is how long what a program has left behind may print after its end.
	printWithin = time.Second
)

// joinAndRun waits for the pod's end of its link and then becomes the pod's program; file 3 is closed then.
const joinAndRun = `read -r address && ip link set lo up && ip addr add "$address/16" dev eth0 && ip link set eth0 up && exec "$@" 3>&-`

// A process runs in a network namespace of its own, joined to the bridge by a pair of links.
type process struct {
	address string
	log     *podLog
	command *exec.Cmd
	// joined ends once the pod has its address.
	joined *os.File
	ready  atomic.Bool
	ending sync.Once
	// ended is closed when it is no more.
	ended chan struct{}
}

// start runs the first container of a pod: the echo server, or for an image that nobody has built a program that waits.
func (k *kubelet) start(ctx context.Context, pod *core.Pod) (*process, error) {
	container := pod.Spec.Containers[0]
	mounts, err := k.mount(ctx, pod, container)
	if err != nil {
		return nil, err
	}
	environment, err := environment(pod, container, mounts)
	if err != nil {
		return nil, err
	}
	number, address, err := nextAddress()
	if err != nil {
		return nil, err
	}
	program, port := []string{"sleep", "infinity"}, ""
	if strings.Contains(container.Image, echoImage) {
		program, port = []string{k.echo}, readyPort(container)
	}
	process, err := k.run(number, address, program, environment)
	if err != nil {
		return nil, err
	}
	k.logs.Store(pod.Namespace+"/"+pod.Name, process.log)
	go process.awaitReady(port, k.poke)
	return process, nil
}

func (k *kubelet) run(number int, address string, program, environment []string) (*process, error) {
	log := &podLog{}
	command := exec.Command("sh", append([]string{"-c", joinAndRun, "pod"}, program...)...)
	command.Env = environment
	command.Stdout, command.Stderr = log, log
	command.WaitDelay = printWithin
	command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	input, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	joined, theirs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	command.ExtraFiles = []*os.File{theirs}
	if err := command.Start(); err != nil {
		joined.Close()
		return nil, err
	}
	process := &process{address: address, log: log, command: command, joined: joined, ended: make(chan struct{})}
	go func() {
		command.Wait()
		close(process.ended)
		k.poke()
	}()
	link := fmt.Sprintf("pod%d", number)
	err = cluster.IP(
		fmt.Sprintf("link add %s type veth peer name eth0 netns %d", link, command.Process.Pid),
		fmt.Sprintf("link set %s master %s up", link, cluster.Bridge),
	)
	if err == nil {
		_, err = io.WriteString(input, address+"\n")
	}
	if err != nil {
		process.kill()
	}
	return process, err
}

// readyPort is the one that the echo server is ready with; UDP has none.
func readyPort(container core.Container) string {
	for _, variable := range container.Env {
		switch variable.Name {
		case "UDP_ECHO_SERVER":
			return ""
		case "HTTP_PORT", "TCP_PORT":
			return variable.Value
		}
	}
	return echoPort
}

// awaitReady tries until the process listens or ends, as a kubelet does. An address that is asked for before it is there
// is asked for again only a second later.
func (p *process) awaitReady(port string, poke func()) {
	io.Copy(io.Discard, p.joined)
	p.joined.Close()
	dialer := net.Dialer{Timeout: dialWithin}
	for port != "" {
		connection, err := dialer.Dial("tcp", net.JoinHostPort(p.address, port))
		if err == nil {
			connection.Close()
			break
		}
		select {
		case <-time.After(dialEvery):
		case <-p.ended:
			return
		}
	}
	p.ready.Store(true)
	poke()
}

func (p *process) isReady() bool { return p.ready.Load() && !p.hasEnded() }

func (p *process) hasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// end does not wait; the second call of it does nothing.
func (p *process) end(grace time.Duration) {
	p.ending.Do(func() {
		p.command.Process.Signal(syscall.SIGTERM)
		time.AfterFunc(grace, p.kill)
	})
}

func (p *process) kill() { p.command.Process.Kill() }

// A mount is a folder that a program finds at its real place: pods have no file system of their own.
type mount struct{ path, folder string }

// mount writes the secrets and config maps that a container has as files, and fails while they are not there.
func (k *kubelet) mount(ctx context.Context, pod *core.Pod, container core.Container) ([]mount, error) {
	var mounts []mount
	for _, wanted := range container.VolumeMounts {
		for _, volume := range pod.Spec.Volumes {
			if volume.Name != wanted.Name {
				continue
			}
			files, err := k.filesOf(ctx, pod.Namespace, volume)
			if err != nil {
				return nil, err
			}
			folder := filepath.Join(k.folder, string(pod.UID), volume.Name)
			if err := writeFiles(folder, files); err != nil {
				return nil, err
			}
			mounts = append(mounts, mount{wanted.MountPath, folder})
		}
	}
	return mounts, nil
}

// filesOf has none for other kinds of volume.
func (k *kubelet) filesOf(ctx context.Context, namespace string, volume core.Volume) (map[string][]byte, error) {
	switch {
	case volume.Secret != nil:
		secret, err := k.client.CoreV1().Secrets(namespace).Get(ctx, volume.Secret.SecretName, meta.GetOptions{})
		if err != nil {
			return nil, err
		}
		return chosen(secret.Data, volume.Secret.Items), nil
	case volume.ConfigMap != nil:
		config, err := k.client.CoreV1().ConfigMaps(namespace).Get(ctx, volume.ConfigMap.Name, meta.GetOptions{})
		if err != nil {
			return nil, err
		}
		data := map[string][]byte{}
		for key, value := range config.Data {
			data[key] = []byte(value)
		}
		return chosen(data, volume.ConfigMap.Items), nil
	}
	return nil, nil
}

// chosen is everything where nothing is chosen.
func chosen(data map[string][]byte, items []core.KeyToPath) map[string][]byte {
	if len(items) == 0 {
		return data
	}
	files := map[string][]byte{}
	for _, item := range items {
		files[item.Path] = data[item.Key]
	}
	return files
}

func writeFiles(folder string, files map[string][]byte) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(folder, filepath.Base(name)), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func environment(pod *core.Pod, container core.Container, mounts []mount) ([]string, error) {
	found := []string{"PATH=" + os.Getenv("PATH")}
	for _, variable := range container.Env {
		value, err := valueOf(pod, variable)
		if err != nil {
			return nil, err
		}
		for _, mount := range mounts {
			if rest, within := strings.CutPrefix(value, mount.path+"/"); within {
				value = filepath.Join(mount.folder, rest)
			}
		}
		found = append(found, variable.Name+"="+value)
	}
	return found, nil
}

func valueOf(pod *core.Pod, variable core.EnvVar) (string, error) {
	if variable.ValueFrom == nil {
		return variable.Value, nil
	}
	if field := variable.ValueFrom.FieldRef; field != nil {
		switch field.FieldPath {
		case "metadata.name":
			return pod.Name, nil
		case "metadata.namespace":
			return pod.Namespace, nil
		}
	}
	return "", fmt.Errorf("the variable %s is from something that has no stand-in", variable.Name)
}
