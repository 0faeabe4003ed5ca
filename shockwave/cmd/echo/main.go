// Command echo is a small HTTP service on Shockwave that does what a request asks for: it reports what it received, or
// responds with so many bytes, after such a delay, in chunks, with a status, or badly. It is the upstream of tests and
// benchmarks of gateways.
//
// On standard output its first line is "listening on " and the address, once it
// takes connections. It serves until SIGINT or SIGTERM, then lets running
// responses finish for at most ten seconds.
//
// Run it with -help for the flags and the paths.
package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"titan.test/shockwave"
	"titan.test/shockwave/stdhttp"
)

// grace is how long running responses may take after the signal.
const grace = 10 * time.Second

// anyPort is the address without -listen and -unix.
const anyPort = "127.0.0.1:0"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	switch err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); {
	case errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errUsage):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "echo:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parseOptions(args, stderr)
	if err != nil {
		return err
	}
	server, err := newServer(o)
	if err != nil {
		return err
	}
	ln, err := listen(o)
	if err != nil {
		return err
	}
	serve := server.Serve
	if server.TLSConfig != nil {
		serve = server.ServeTLS
	}
	failed := make(chan error, 1)
	go func() { failed <- serve(ln) }()
	fmt.Fprintf(stdout, "listening on %s\n", ln.Addr())
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	return server.Shutdown(last)
}

func newServer(o options) (*shockwave.Server, error) {
	s := &shockwave.Server{
		Handler: newService(o.name, o.workers).handle,
		Limits: shockwave.Limits{
			// What gateways let through is theirs to decide, and /headers responds with more than is usual.
			Head:           64 << 10,
			Body:           math.MaxInt64,
			ResponseFields: maxFieldBytes + maxFields*len("X-Echo-1000: \r\n") + 1<<10,
		},
	}
	if o.cert == "" {
		return s, nil
	}
	certificate, err := tls.LoadX509KeyPair(o.cert, o.key)
	if err != nil {
		return nil, err
	}
	s.TLSConfig = &tls.Config{Certificates: []tls.Certificate{certificate}}
	stdhttp.H2(s)
	return s, nil
}

func listen(o options) (net.Listener, error) {
	if o.unix != "" {
		return net.Listen("unix", o.unix)
	}
	return net.Listen("tcp", cmp.Or(o.listen, anyPort))
}

type options struct {
	listen, unix, name, cert, key string
	workers                       int
}

// errUsage means that the arguments are wrong, and that the user has been told why.
var errUsage = errors.New("wrong arguments")

func parseOptions(args []string, stderr io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("echo", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.listen, "listen", "", "TCP `address` to listen on; port 0 takes a free one (default "+anyPort+")")
	flags.StringVar(&o.unix, "unix", "", "`path` of a Unix socket to listen on instead of -listen")
	flags.StringVar(&o.name, "name", "", "`name` of this instance, in the field Echo-Name of every response")
	flags.StringVar(&o.cert, "tls-cert", "", "`file` with the certificate chain; with it the port speaks TLS, HTTP/1.1 and HTTP/2")
	flags.StringVar(&o.key, "tls-key", "", "`file` with the certificate's private key")
	flags.IntVar(&o.workers, "workers", 1, "how many requests for /work are worked on at a time")
	flags.Usage = func() {
		fmt.Fprint(stderr, "Usage: echo [flags]\n\nFlags:\n")
		flags.PrintDefaults()
		fmt.Fprint(stderr, paths)
	}
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return o, err
	case err != nil:
		return o, errUsage
	case flags.NArg() > 0:
		fmt.Fprintf(stderr, "echo: unexpected argument %q\n", flags.Arg(0))
		return o, errUsage
	case o.workers < 1:
		fmt.Fprintln(stderr, "echo: -workers has to be at least 1")
		return o, errUsage
	case (o.cert == "") != (o.key == ""):
		fmt.Fprintln(stderr, "echo: -tls-cert and -tls-key belong together")
		return o, errUsage
	case o.listen != "" && o.unix != "":
		fmt.Fprintln(stderr, "echo: -listen and -unix exclude each other")
		return o, errUsage
	}
	return o, nil
}
