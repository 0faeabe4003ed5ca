package main

import (
	"context"
	"fmt"
	"io"

	testpb "google.golang.org/grpc/interop/grpc_testing"
)

// manyAnswers has the service send so many messages of so many bytes.
func manyAnswers(ctx context.Context, c client, count int, size int32) error {
	request := &testpb.StreamingOutputCallRequest{}
	for range count {
		request.ResponseParameters = append(request.ResponseParameters, &testpb.ResponseParameters{Size: size})
	}
	stream, err := c.tests.StreamingOutputCall(ctx, request)
	if err != nil {
		return err
	}
	for number := 0; ; number++ {
		answer, err := stream.Recv()
		switch {
		case err == io.EOF && number == count:
			return nil
		case err != nil:
			return fmt.Errorf("after %d messages: %w", number, err)
		case len(answer.GetPayload().GetBody()) != int(size):
			return fmt.Errorf("message %d has another size", number)
		}
	}
}

// manyRequests sends the service so many messages of so many bytes.
func manyRequests(ctx context.Context, c client, count, size int) error {
	stream, err := c.tests.StreamingInputCall(ctx)
	if err != nil {
		return err
	}
	message := &testpb.StreamingInputCallRequest{Payload: &testpb.Payload{Body: make([]byte, size)}}
	for number := range count {
		if err := stream.Send(message); err != nil {
			_, err = stream.CloseAndRecv()
			return fmt.Errorf("after %d messages: %w", number, err)
		}
	}
	answer, err := stream.CloseAndRecv()
	if err != nil {
		return err
	}
	if got := answer.GetAggregatedPayloadSize(); int(got) != count*size {
		return fmt.Errorf("%d bytes have come", got)
	}
	return nil
}

// manyTurns has both sides say so little in turn.
func manyTurns(ctx context.Context, c client, count int) error {
	stream, err := c.tests.FullDuplexCall(ctx)
	if err != nil {
		return err
	}
	turn := &testpb.StreamingOutputCallRequest{ResponseParameters: []*testpb.ResponseParameters{{}}}
	for number := range count {
		if err := stream.Send(turn); err != nil {
			_, err = stream.Recv()
			return fmt.Errorf("after %d messages: %w", number, err)
		}
		if _, err := stream.Recv(); err != nil {
			return fmt.Errorf("after %d messages: %w", number, err)
		}
	}
	return stream.CloseSend()
}
