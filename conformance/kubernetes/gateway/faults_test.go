package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A fault is what an API server does in place of responding to a request, if it does anything.
type fault func(w http.ResponseWriter, r *http.Request, real http.Handler) bool

// between is a way to the API server whose faults can be chosen, and how often each was met.
type between struct {
	kubeconfig string
	fault      atomic.Pointer[fault]
	met        atomic.Int64
	// round ends with the watches that are open.
	round atomic.Pointer[round]
}

type round struct {
	ctx context.Context
	end context.CancelFunc
}

func newRound() *round {
	ctx, end := context.WithCancel(context.Background())
	return &round{ctx, end}
}

// hasFaults stands between the gateway and the API server.
func hasFaults(t *testing.T) *between {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	it := &between{kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	real := httputil.NewSingleHostReverseProxy(target)
	real.Transport, real.FlushInterval = transport, -1
	it.round.Store(newRound())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if fault := it.fault.Load(); fault != nil {
			// One that ends a response in its middle panics.
			isMet := true
			defer func() {
				if isMet {
					it.met.Add(1)
				}
			}()
			if isMet = (*fault)(w, r, real); isMet {
				return
			}
		}
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(it.round.Load().ctx, cancel)()
		real.ServeHTTP(w, r.WithContext(ctx))
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{ name: a, cluster: { server: %q } }]\n"+
		"contexts: [{ name: a, context: { cluster: a, user: a } }]\nusers: [{ name: a, user: {} }]\ncurrent-context: a\n", server.URL)
	if err := os.WriteFile(it.kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return it
}

// begins has it do that from now on, and waits until the gateway has met it some times.
func (b *between) begins(t *testing.T, fault fault, times int64) {
	t.Helper()
	b.met.Store(0)
	b.fault.Store(&fault)
	b.round.Swap(newRound()).end()
	await(t, "the fault is met", func() error {
		if met := b.met.Load(); met < times {
			return fmt.Errorf("%d times", met)
		}
		return nil
	})
}

// ends has it be what it was.
func (b *between) ends() { b.fault.Store(nil) }

func isWatch(r *http.Request) bool { return strings.Contains(r.URL.RawQuery, "watch=") }

// cut ends each watch after a while, in the middle of what it says.
func cut(after time.Duration) fault {
	return func(w http.ResponseWriter, r *http.Request, real http.Handler) bool {
		if !isWatch(r) {
			return false
		}
		ctx, cancel := context.WithTimeout(r.Context(), after)
		defer cancel()
		real.ServeHTTP(w, r.WithContext(ctx))
		return true
	}
}

// says responds to each watch, or to each list as well, with that text.
func says(status int, text string, lists bool) fault {
	return func(w http.ResponseWriter, r *http.Request, _ http.Handler) bool {
		if !isWatch(r) && !lists {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
		return true
	}
}

const (
	// expired says that the version from which a watch begins is not known any more.
	expired = `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure",` +
		`"message":"too old","reason":"Expired","code":410}}` + "\n"
	// older says that the watch has come to a version that is long gone.
	older = `{"type":"BOOKMARK","object":{"kind":"HTTPRoute","apiVersion":"gateway.networking.k8s.io/v1",` +
		`"metadata":{"resourceVersion":"1"}}}` + "\n"
)

// traffic asks for a host's page again and again until it is stopped, and tells what went wrong.
func traffic(address, host string) (stop func() (int, error)) {
	done, result := make(chan struct{}), make(chan error, 1)
	asked := 0
	go func() {
		look := serves(address, host)
		for {
			select {
			case <-done:
				result <- nil
				return
			default:
			}
			if err := look(); err != nil {
				result <- err
				return
			}
			asked++
		}
	}()
	return func() (int, error) {
		close(done)
		err := <-result
		return asked, err
	}
}

func TestAnAPIServerThatFailsStopsNoTraffic(t *testing.T) {
	applied(t, fmt.Sprintf(route, "kept", `{}`))
	between := hasFaults(t)
	start(t, private(t), between.kubeconfig)
	at := address(t)
	await(t, "it serves", serves(at, "kept.example.com"))
	stop := traffic(at, "kept.example.com")
	faults := []struct {
		name  string
		fault fault
		times int64
	}{
		{"watches-break", cut(time.Second), 40},
		{"watches-expire", says(200, expired, false), 10},
		{"versions-go-back", says(200, older, false), 10},
		{"watches-are-no-json", says(200, "<html>hello</html>\n", false), 10},
		{"half-an-object", says(200, `{"type":"ADDED","object":{"kind":"HTTPRoute","meta`, false), 10},
		{"everything-is-empty", says(200, `{}`, true), 10},
		{"everything-fails", says(500, "no", true), 10},
		{"nobody-may", says(403, "{}", true), 10},
	}
	for _, it := range faults {
		t.Run(it.name, func(t *testing.T) {
			between.begins(t, it.fault, it.times)
			applied(t, fmt.Sprintf(route, it.name, `{}`))
			if err := serves(at, "kept.example.com")(); err != nil {
				t.Error(err)
			}
			between.ends()
			await(t, "what came meanwhile is served", serves(at, it.name+".example.com"))
		})
	}
	if asked, err := stop(); err != nil {
		t.Errorf("after %d requests: %v", asked, err)
	}
}

func TestTenThousandRoutesAtOnceStopNoTraffic(t *testing.T) {
	const routes, writers = 10_000, 16
	applied(t, fmt.Sprintf(route, "kept", `{}`))
	start(t, private(t), kubeconfig)
	at := address(t)
	await(t, "it serves", serves(at, "kept.example.com"))
	t.Cleanup(func() {
		all := &unstructured.Unstructured{}
		all.SetAPIVersion("gateway.networking.k8s.io/v1")
		all.SetKind("HTTPRoute")
		_ = api.DeleteAllOf(context.Background(), all, client.InNamespace("shop"))
	})
	stop := traffic(at, "kept.example.com")
	if err := burst(t.Context(), routes, writers); err != nil {
		t.Fatal(err)
	}
	overdue := time.Now().Add(8 * patience)
	for _, name := range []string{"burst-0", fmt.Sprintf("burst-%d", routes-1)} {
		look := serves(at, name+".example.com")
		for err := look(); err != nil; err = look() {
			if time.Now().After(overdue) {
				t.Fatalf("%s: %v", name, err)
			}
			time.Sleep(every)
		}
	}
	if asked, err := stop(); err != nil {
		t.Errorf("after %d requests: %v", asked, err)
	}
}

// burst creates as many routes as fast as the API server takes them.
func burst(ctx context.Context, routes, writers int) error {
	var next atomic.Int64
	var all sync.WaitGroup
	failures := make(chan error, writers)
	for range writers {
		all.Go(func() {
			for {
				number := int(next.Add(1)) - 1
				if number >= routes {
					return
				}
				objects, err := objectsOf(fmt.Sprintf(route, fmt.Sprintf("burst-%d", number), `{}`))
				if err == nil {
					err = api.Create(ctx, objects[0])
				}
				if err != nil {
					failures <- err
					return
				}
			}
		})
	}
	all.Wait()
	close(failures)
	var found []error
	for err := range failures {
		found = append(found, err)
	}
	return errors.Join(found...)
}
