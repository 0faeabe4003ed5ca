// What runs in the containers of the tests: it responds with the name of its host. `container check` is its health check, which
// fails until somebody has asked for /heal.
package main

import (
	"fmt"
	"net/http"
	"os"
	"sync/atomic"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "check" {
		os.Exit(check())
	}
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve() error {
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	var healthy atomic.Bool
	http.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, name) })
	http.HandleFunc("/heal", func(http.ResponseWriter, *http.Request) { healthy.Store(true) })
	http.HandleFunc("/health", func(w http.ResponseWriter, _ *http.Request) {
		if !healthy.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	return http.ListenAndServe(":8080", nil)
}

func check() int {
	response, err := http.Get("http://127.0.0.1:8080/health")
	if err != nil {
		return 1
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return 1
	}
	return 0
}
