// Command origin is a Shockwave service that stands behind the gateways of the benchmark: for the same requests it sends
// the same bodies as the harness's own origin, of which the load generator checks every byte. bench/README.md says when
// it is used.
//
// Usage: origin LISTEN-ADDRESS
package main

import (
	"fmt"
	"os"
	"runtime"

	"titan.test/shockwave"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: origin LISTEN-ADDRESS")
		os.Exit(2)
	}
	// The driver gives it one core: more threads would only take turns there.
	runtime.GOMAXPROCS(1)
	if err := newServer().ListenAndServe(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "origin:", err)
		os.Exit(1)
	}
}

// The Server field is that of the other origin, so that the heads are equally long.
func newServer() *shockwave.Server {
	return &shockwave.Server{
		Handler: newService().handle,
		Limits:  shockwave.Limits{Body: largest},
		Name:    "origin",
	}
}
