// Grpc judges a gateway with grpc-go on both sides: the service of the official interoperability tests
// behind it, and their cases as its client.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
)

var errUsage = errors.New("usage: grpc serve|check [-tls FILE] ADDRESS [CASE...]")

func main() {
	if len(os.Args) < 2 {
		fail(errUsage)
	}
	flags := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	file := flags.String("tls", "", "TLS: the certificate and its key to serve with, or whom to trust")
	if err := flags.Parse(os.Args[2:]); err != nil || flags.NArg() == 0 {
		fail(errUsage)
	}
	if err := play(os.Args[1], *file, flags.Arg(0), flags.Args()[1:]); err != nil {
		fail(err)
	}
}

func play(role, file, address string, cases []string) error {
	switch role {
	case "serve":
		return serve(address, file)
	case "check":
		return check(address, file, cases)
	}
	return errUsage
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "grpc:", err)
	os.Exit(2)
}
