package main

import (
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/interop"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
)

// serve runs the official service until the process ends: with TLS where there is a certificate, which has
// its key in the same file.
func serve(address, certificate string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	var options []grpc.ServerOption
	if certificate != "" {
		security, err := credentials.NewServerTLSFromFile(certificate, certificate)
		if err != nil {
			return err
		}
		options = append(options, grpc.Creds(security))
	}
	server := grpc.NewServer(options...)
	testgrpc.RegisterTestServiceServer(server, interop.NewTestServer())
	return server.Serve(listener)
}
