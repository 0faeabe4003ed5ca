package gateway

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"titan.test/kubernetes/cluster"
)

// titanPolicy is the definition that the chart installs.
const titanPolicy = "../../../packaging/helm/titan/crds/titanpolicies.yaml"

func installTitanPolicy() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return cluster.InstallDefinitions(ctx, running.Config, titanPolicy)
}

// shared is the secret that tokens are signed with.
const shared = "0123456789abcdef0123456789abcdef"

// keys is the Secret with it.
const keys = `
apiVersion: v1
kind: Secret
metadata: { name: keys, namespace: shop, labels: { gateway.titan.test/for-policies: "true" } }
stringData: { hmac: ` + shared + ` }
`

// policy is one for a route that has the given words beside its target.
const policy = `
apiVersion: gateway.titan.test/v1alpha1
kind: TitanPolicy
metadata: { name: guard, namespace: shop }
spec:
  targetRefs: [{ group: gateway.networking.k8s.io, kind: HTTPRoute, name: guarded }]
  %s
`

// guard is one that asks for tokens.
var guard = fmt.Sprintf(policy,
	`jwt: { providers: { algorithms: HS256, keys: { secret_file: { secretRef: { name: keys, key: hmac } } } } }`)

// token is a valid one.
func token() string {
	encode := base64.RawURLEncoding.EncodeToString
	signed := encode([]byte(`{"alg":"HS256"}`)) + "." + encode(fmt.Appendf(nil, `{"exp":%d}`, time.Now().Add(time.Hour).Unix()))
	mac := hmac.New(sha256.New, []byte(shared))
	mac.Write([]byte(signed))
	return signed + "." + encode(mac.Sum(nil))
}

// responds looks whether a host's requests, with that token, get that status.
func responds(address, host, token string, expected int) func() error {
	return func() error {
		request, err := http.NewRequest("GET", "http://"+address, nil)
		if err != nil {
			return err
		}
		request.Host = host
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}).Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if body, _ := io.ReadAll(response.Body); response.StatusCode != expected {
			return fmt.Errorf("%d %s", response.StatusCode, body)
		}
		return nil
	}
}

// isAccepted looks at what the policy's status says of the gateway.
func isAccepted(t *testing.T, expected string) func() error {
	return func() error {
		object := &unstructured.Unstructured{}
		object.SetAPIVersion("gateway.titan.test/v1alpha1")
		object.SetKind("TitanPolicy")
		if err := api.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "guard"}, object); err != nil {
			return err
		}
		ancestors, _, _ := unstructured.NestedSlice(object.Object, "status", "ancestors")
		told := fmt.Sprint(object.GetGeneration(), ancestors)
		if strings.Contains(told, shared) {
			t.Fatalf("the status tells the secret: %s", told)
		}
		for _, part := range []string{expected, "name:edge", fmt.Sprint("observedGeneration:", object.GetGeneration())} {
			if !strings.Contains(told, part) {
				return fmt.Errorf("%q is not in %s", part, told)
			}
		}
		return nil
	}
}

func TestPolicyIsEnforcedClosedAndRemoved(t *testing.T) {
	applied(t, fmt.Sprintf(route, "guarded", "")+"---"+fmt.Sprintf(route, "free", ""))
	start(t, private(t), kubeconfig)
	edge := address(t) + ":80"
	host := "guarded.example.com"
	await(t, "the route is served", serves(edge, host))

	applied(t, keys)
	applied(t, guard)
	await(t, "requests without a token are refused", responds(edge, host, "", 401))
	await(t, "the policy is accepted", isAccepted(t, "reason:Accepted"))
	await(t, "requests with a token are served", responds(edge, host, token(), 200))

	secret, err := objectsOf(keys)
	if err != nil {
		t.Fatal(err)
	}
	if err := api.Delete(t.Context(), secret[0]); err != nil {
		t.Fatal(err)
	}
	await(t, "without its secret the route is closed", responds(edge, host, token(), 503))
	await(t, "the status says so", isAccepted(t, "there is no Secret shop/keys"))
	if err := apply(t.Context(), keys); err != nil {
		t.Fatal(err)
	}
	await(t, "with the secret it is open", responds(edge, host, token(), 200))

	// The gateway itself finds that a key is too short, as it does not read secrets before.
	if err := apply(t.Context(), strings.Replace(keys, shared, "short", 1)); err != nil {
		t.Fatal(err)
	}
	await(t, "with a bad key the route is closed", responds(edge, host, token(), 503))
	await(t, "the status says why", isAccepted(t, "Secret shop/keys, `hmac`"))
	if err := apply(t.Context(), fmt.Sprintf(policy, "jtw: {}")); err != nil {
		t.Fatal(err)
	}
	await(t, "the status tells of a typing error", isAccepted(t, "`jtw` is not known"))
	await(t, "nor is it open for anybody then", responds(edge, host, "", 503))
	await(t, "others are served", serves(edge, "free.example.com"))

	removed, err := objectsOf(guard)
	if err != nil {
		t.Fatal(err)
	}
	if err := api.Delete(t.Context(), removed[0]); err != nil {
		t.Fatal(err)
	}
	await(t, "without the policy all requests are served", serves(edge, host))
}
