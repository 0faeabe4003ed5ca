// Command endpoint is one of those that `make chaos` puts behind gateways: a service that fails in the way that it is told
// to. Over HTTP/1.1 it runs on Shockwave, over HTTP/2, and for gRPC calls, on net/http.
//
// Usage: endpoint h1|h2 LISTEN-ADDRESS REPORT-ADDRESS NAME
//
// A line of its standard input names the fault from then on, `none` for none; the table in faults.go has them. For each
// request that is no health check it sends a datagram to REPORT-ADDRESS, so that what a process counted outlives it.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"

	"titan.test/shockwave"
	"titan.test/shockwave/stdhttp"
)

var errUsage = errors.New("usage: endpoint h1|h2 LISTEN-ADDRESS REPORT-ADDRESS NAME")

func main() {
	if err := run(os.Args[1:], os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "endpoint:", err)
		os.Exit(1)
	}
}

// run serves until the listener fails, or commands end: then whoever started it has gone.
func run(args []string, commands io.Reader) error {
	if len(args) != 4 || args[0] != "h1" && args[0] != "h2" {
		return errUsage
	}
	reports, err := net.Dial("udp", args[2])
	if err != nil {
		return err
	}
	door, err := listen(args[1])
	if err != nil {
		return err
	}
	s := &service{door: door, reports: reports, body: bodyOf(args[3])}
	failed := make(chan error, 2)
	go func() { failed <- serve(args[0], s) }()
	go func() { failed <- obey(commands, door) }()
	return <-failed
}

func serve(version string, s *service) error {
	if version == "h1" {
		server := &shockwave.Server{Handler: stdhttp.Handler(s), ErrorLog: slog.New(slog.DiscardHandler)}
		return server.Serve(s.door)
	}
	server := &http.Server{Handler: s, Protocols: new(http.Protocols)}
	server.Protocols.SetUnencryptedHTTP2(true)
	return server.Serve(s.door)
}

// obey puts the faults in force that the lines of commands name.
func obey(commands io.Reader, door *door) error {
	lines := bufio.NewScanner(commands)
	for lines.Scan() {
		if err := door.fail(lines.Text()); err != nil {
			return err
		}
	}
	return lines.Err()
}
