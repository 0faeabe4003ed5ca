package standin

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"titan.test/kubernetes/cluster"
)

// addressesEach is how many addresses there are under each third number.
const addressesEach = 250

// started counts the processes of this program: each has a link and an address that none had before, because the
// system takes the link of one that has ended away only a while later.
var started atomic.Int64

// A kubelet runs the processes of pods. Only its logs are for other goroutines.
type kubelet struct {
	echo    string
	folder  string
	client  kubernetes.Interface
	poke    func()
	running map[types.UID]*process
	logs    sync.Map
	server  *httptest.Server
}

func newKubelet(echo, folder string, client kubernetes.Interface, poke func()) *kubelet {
	return &kubelet{echo: echo, folder: folder, client: client, poke: poke, running: map[types.UID]*process{}}
}

// register makes the node that the API server asks for the logs of pods.
func (k *kubelet) register(ctx context.Context) error {
	listener, err := net.Listen("tcp", net.JoinHostPort(cluster.NodeAddress, "0"))
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", k.serveLog)
	k.server = &httptest.Server{Listener: listener, Config: &http.Server{Handler: mux}}
	k.server.StartTLS()
	node := &core.Node{ObjectMeta: meta.ObjectMeta{Name: signature}}
	node, err = k.client.CoreV1().Nodes().Create(ctx, node, meta.CreateOptions{})
	if err != nil {
		return err
	}
	port := int32(listener.Addr().(*net.TCPAddr).Port)
	node.Status = core.NodeStatus{
		Addresses:       []core.NodeAddress{{Type: core.NodeInternalIP, Address: cluster.NodeAddress}},
		DaemonEndpoints: core.NodeDaemonEndpoints{KubeletEndpoint: core.DaemonEndpoint{Port: port}},
		Conditions:      []core.NodeCondition{{Type: core.NodeReady, Status: core.ConditionTrue}},
	}
	_, err = k.client.CoreV1().Nodes().UpdateStatus(ctx, node, meta.UpdateOptions{})
	return err
}

func (k *kubelet) stop() {
	for _, process := range k.running {
		process.kill()
	}
	for _, process := range k.running {
		<-process.ended
	}
	if k.server != nil {
		k.server.Close()
	}
}

// nextAddress returns the number of a pod's process too, which its link is named by.
func nextAddress() (int, string, error) {
	number := int(started.Add(1)) - 1
	third, fourth := number/addressesEach+1, number%addressesEach+1
	if third > 255 {
		return 0, "", fmt.Errorf("all %d addresses have been used", number)
	}
	return number, fmt.Sprintf("%s%d.%d", cluster.PodPrefix, third, fourth), nil
}

// serveLog knows of the questions that can be asked of a kubelet only the one for a time.
func (k *kubelet) serveLog(w http.ResponseWriter, r *http.Request) {
	log, found := k.logs.Load(r.PathValue("namespace") + "/" + r.PathValue("pod"))
	if !found {
		http.NotFound(w, r)
		return
	}
	since, err := time.Parse(time.RFC3339, r.FormValue("sinceTime"))
	if err != nil && r.FormValue("sinceTime") != "" {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	for _, line := range log.(*podLog).since(since) {
		fmt.Fprintln(w, line)
	}
}

// logLines is how many lines of a pod are kept.
const logLines = 10_000

// A podLog is what a process has printed.
type podLog struct {
	mu    sync.Mutex
	lines []logLine
	// rest is the beginning of a line whose end is still to come.
	rest string
}

type logLine struct {
	at   time.Time
	text string
}

func (l *podLog) Write(printed []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	whole := strings.Split(l.rest+string(printed), "\n")
	l.rest = whole[len(whole)-1]
	for _, text := range whole[:len(whole)-1] {
		l.lines = append(l.lines, logLine{time.Now(), text})
	}
	l.lines = l.lines[max(0, len(l.lines)-logLines):]
	return len(printed), nil
}

// since rounds as the API does: a time has no fraction of a second there.
func (l *podLog) since(start time.Time) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []string
	for _, line := range l.lines {
		if !line.at.Truncate(time.Second).Before(start.Truncate(time.Second)) {
			found = append(found, line.text)
		}
	}
	return found
}

func (l *podLog) last() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.lines) == 0 {
		return "it has printed nothing"
	}
	return l.lines[len(l.lines)-1].text
}
