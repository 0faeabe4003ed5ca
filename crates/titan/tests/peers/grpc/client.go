package main

import (
	"context"
	"crypto/x509"
	"fmt"
	"os"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/interop"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
)

// A client is a channel to the gateway, and how to open another one like it.
type client struct {
	address string
	// Whom to trust; nil without TLS.
	tls     *x509.CertPool
	options []grpc.DialOption
	channel *grpc.ClientConn
	tests   testgrpc.TestServiceClient
}

// cases are the official ones that need no credentials, in the order of their description. One that fails
// ends the process.
var cases = []struct {
	name string
	run  func(context.Context, client)
}{
	{"empty_unary", func(ctx context.Context, c client) { interop.DoEmptyUnaryCall(ctx, c.tests) }},
	{"large_unary", func(ctx context.Context, c client) { interop.DoLargeUnaryCall(ctx, c.tests) }},
	{"client_streaming", func(ctx context.Context, c client) { interop.DoClientStreaming(ctx, c.tests) }},
	{"server_streaming", func(ctx context.Context, c client) { interop.DoServerStreaming(ctx, c.tests) }},
	{"ping_pong", func(ctx context.Context, c client) { interop.DoPingPong(ctx, c.tests) }},
	{"empty_stream", func(ctx context.Context, c client) { interop.DoEmptyStream(ctx, c.tests) }},
	{"client_compressed_unary", func(ctx context.Context, c client) {
		interop.DoLargeUnaryCall(ctx, c.tests, grpc.UseCompressor(gzip.Name))
	}},
	{"client_compressed_streaming", func(ctx context.Context, c client) {
		interop.DoClientStreaming(ctx, c.tests, grpc.UseCompressor(gzip.Name))
	}},
	{"server_compressed_streaming", func(ctx context.Context, c client) {
		interop.DoServerStreaming(ctx, c.tests, grpc.UseCompressor(gzip.Name))
	}},
	{"compressed_ping_pong", func(ctx context.Context, c client) {
		interop.DoPingPong(ctx, c.tests, grpc.UseCompressor(gzip.Name))
	}},
	{"timeout_on_sleeping_server", func(ctx context.Context, c client) {
		interop.DoTimeoutOnSleepingServer(ctx, c.tests)
	}},
	{"cancel_after_begin", func(ctx context.Context, c client) { interop.DoCancelAfterBegin(ctx, c.tests) }},
	{"cancel_after_first_response", func(ctx context.Context, c client) {
		interop.DoCancelAfterFirstResponse(ctx, c.tests)
	}},
	{"status_code_and_message", func(ctx context.Context, c client) {
		interop.DoStatusCodeAndMessage(ctx, c.tests)
	}},
	{"special_status_message", func(ctx context.Context, c client) {
		interop.DoSpecialStatusMessage(ctx, c.tests)
	}},
	{"custom_metadata", func(ctx context.Context, c client) { interop.DoCustomMetadata(ctx, c.tests) }},
	{"unimplemented_method", func(ctx context.Context, c client) {
		interop.DoUnimplementedMethod(ctx, c.channel)
	}},
	{"unimplemented_service", func(ctx context.Context, c client) {
		interop.DoUnimplementedService(ctx, testgrpc.NewUnimplementedServiceClient(c.channel))
	}},
	{"many_answers", must(func(ctx context.Context, c client) error { return manyAnswers(ctx, c, 20_000, 2_000) })},
	{"many_large_answers", must(func(ctx context.Context, c client) error { return manyAnswers(ctx, c, 2_000, 100_000) })},
	{"many_requests", must(func(ctx context.Context, c client) error { return manyRequests(ctx, c, 20_000, 2_000) })},
	{"many_empty_requests", must(func(ctx context.Context, c client) error { return manyRequests(ctx, c, 20_000, 0) })},
	{"many_large_requests", must(func(ctx context.Context, c client) error { return manyRequests(ctx, c, 500, 100_000) })},
	{"many_turns", must(func(ctx context.Context, c client) error { return manyTurns(ctx, c, 3_000) })},
	{"web", must(func(ctx context.Context, c client) error { return webCases(ctx, c, false) })},
	{"web_text", must(func(ctx context.Context, c client) error { return webCases(ctx, c, true) })},
	{"rpc_soak", func(ctx context.Context, c client) {
		interop.DoSoakTest(ctx, c.soak(func() (*grpc.ClientConn, func()) { return c.channel, func() {} }))
	}},
	{"channel_soak", func(ctx context.Context, c client) {
		interop.DoSoakTest(ctx, c.soak(func() (*grpc.ClientConn, func()) {
			channel, err := grpc.NewClient(c.address, c.options...)
			if err != nil {
				fail(err)
			}
			return channel, func() { _ = channel.Close() }
		}))
	}},
}

// must ends the process when a case of our own fails.
func must(run func(context.Context, client) error) func(context.Context, client) {
	return func(ctx context.Context, c client) {
		if err := run(ctx, c); err != nil {
			fail(err)
		}
	}
}

// patience is how long a case may take. A busy machine is no failure.
const patience = 20 * time.Second

// check runs the named cases, or all of them, against the gateway at address.
func check(address, authority string, names []string) error {
	c, err := connect(address, authority)
	if err != nil {
		return err
	}
	for _, it := range cases {
		if len(names) > 0 && !slices.Contains(names, it.name) {
			continue
		}
		fmt.Println(it.name)
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		it.run(ctx, c)
		cancel()
	}
	return c.channel.Close()
}

func connect(address, authority string) (client, error) {
	security := insecure.NewCredentials()
	var trusted *x509.CertPool
	if authority != "" {
		file, err := os.ReadFile(authority)
		if err != nil {
			return client{}, err
		}
		trusted = x509.NewCertPool()
		trusted.AppendCertsFromPEM(file)
		security = credentials.NewClientTLSFromCert(trusted, "localhost")
	}
	options := []grpc.DialOption{grpc.WithTransportCredentials(security)}
	channel, err := grpc.NewClient(address, options...)
	if err != nil {
		return client{}, err
	}
	return client{address, trusted, options, channel, testgrpc.NewTestServiceClient(channel)}, nil
}

// soak is as much of a soak test as a test suite has time for.
func (c client) soak(channel func() (*grpc.ClientConn, func())) interop.SoakTestConfig {
	return interop.SoakTestConfig{
		RequestSize:                      271828,
		ResponseSize:                     314159,
		PerIterationMaxAcceptableLatency: patience,
		OverallTimeout:                   patience,
		ServerAddr:                       c.address,
		NumWorkers:                       4,
		Iterations:                       40,
		ChannelForTest:                   channel,
	}
}
