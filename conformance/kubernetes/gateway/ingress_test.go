package gateway

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ingress is one to the service, and one that asks for what is not served.
const ingress = `
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: { name: titan }
spec: { controller: titan.test/gateway }
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: front
  namespace: shop
  annotations: { nginx.ingress.kubernetes.io/app-root: /start, nginx.ingress.kubernetes.io/denylist-source-range: 192.0.2.0/24 }
spec:
  ingressClassName: titan
  rules:
    - host: ingress.example.com
      http: { paths: [{ path: /start, pathType: Prefix, backend: { service: { name: front, port: { number: 8080 } } } }] }
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: { name: closed, namespace: shop, annotations: { nginx.ingress.kubernetes.io/auth-type: basic } }
spec:
  ingressClassName: titan
  rules:
    - host: closed.example.com
      http: { paths: [{ path: /, pathType: Prefix, backend: { service: { name: front, port: { number: 8080 } } } }] }
`

func TestIngressesAreServed(t *testing.T) {
	start(t, private(t), kubeconfig)
	applied(t, ingress)
	var where string
	await(t, "the Ingress has an address", func() error {
		object := &unstructured.Unstructured{}
		object.SetAPIVersion("networking.k8s.io/v1")
		object.SetKind("Ingress")
		if err := api.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "front"}, object); err != nil {
			return err
		}
		addresses, _, _ := unstructured.NestedSlice(object.Object, "status", "loadBalancer", "ingress")
		if len(addresses) != 1 {
			return fmt.Errorf("%v", addresses)
		}
		where, _ = addresses[0].(map[string]any)["ip"].(string)
		return nil
	})
	responds := func(host, path string, expected int, text string) func() error {
		return func() error {
			status, body, err := get(where+":80", host, path)
			if err == nil && (status != expected || !strings.Contains(body, text)) {
				err = fmt.Errorf("%d %s", status, body)
			}
			return err
		}
	}
	await(t, "a path is served", responds("ingress.example.com", "/start/a", 200, "from the pod"))
	await(t, "the root leads to it", responds("ingress.example.com", "/", 200, "from the pod"))
	await(t, "no other path is", responds("ingress.example.com", "/other", 404, ""))
	await(t, "nothing is served without what protects it", responds("closed.example.com", "/", 503, ""))
}
