package shockwave_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"time"

	"titan.test/shockwave"
)

// exchange serves one request in memory and prints the response without its Date.
func exchange(s *shockwave.Server, request string) {
	client, server := net.Pipe()
	go s.ServeConn(server)
	go io.WriteString(client, request)
	defer s.Close()
	defer client.Close()
	for lines := bufio.NewScanner(client); lines.Scan(); {
		if line := lines.Text(); len(line) < 5 || line[:5] != "Date:" {
			fmt.Println(line)
		}
	}
}

func Example() {
	s := &shockwave.Server{Handler: func(c *shockwave.Ctx) {
		c.SendString("text/plain; charset=utf-8", "hello "+string(c.QueryValue("name"))+"\n")
	}}
	exchange(s, "GET /?name=world HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	// Output:
	// HTTP/1.1 200 OK
	// Content-Type: text/plain; charset=utf-8
	// Content-Length: 12
	// Connection: close
	//
	// hello world
}

// A body is bounded twice: by Limits.Body for the server, and here for this handler.
func ExampleCtx_ReadBody() {
	s := &shockwave.Server{Handler: func(c *shockwave.Ctx) {
		body, err := c.ReadBody(10)
		if err != nil {
			return // the engine responds with the status that the error asks for
		}
		c.Send("text/plain", body)
	}}
	exchange(s, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\nConnection: close\r\n\r\nhello world")
	// Output:
	// HTTP/1.1 413 Content Too Large
	// Content-Type: text/plain; charset=utf-8
	// Content-Length: 22
	// Connection: close
	//
	// 413 Content Too Large
}

// What is to live longer than the handler must be a copy.
func ExampleCtx_Clone() {
	kept := make(chan *shockwave.Request, 1)
	s := &shockwave.Server{Handler: func(c *shockwave.Ctx) {
		kept <- c.Clone()
		c.SetStatus(202)
	}}
	exchange(s, "GET /later HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	request := <-kept
	fmt.Println(request.Method, request.Path, request.Header("host"))
	// Output:
	// HTTP/1.1 202 Accepted
	// Content-Length: 0
	// Connection: close
	//
	// GET /later a
}

// The Context ends when the client hangs up, so what is done for it can end too.
func ExampleCtx_Context() {
	s := &shockwave.Server{Handler: func(c *shockwave.Ctx) {
		c.SetDeadline(time.Now().Add(time.Millisecond))
		<-c.Context().Done()
		c.Error(503, context.Cause(c.Context()).Error())
	}}
	exchange(s, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	// Output:
	// HTTP/1.1 503 Service Unavailable
	// Content-Type: text/plain; charset=utf-8
	// Content-Length: 26
	// Connection: close
	//
	// context deadline exceeded
}

// Each Flush sends an event at once.
func ExampleCtx_Stream() {
	s := &shockwave.Server{Handler: func(c *shockwave.Ctx) {
		c.Stream("text/event-stream", func(w io.Writer) error {
			for i := range 2 {
				fmt.Fprintf(w, "data: %d\n\n", i)
				if err := c.Flush(); err != nil {
					return err
				}
			}
			return nil
		})
	}}
	exchange(s, "GET / HTTP/1.0\r\n\r\n")
	// Output:
	// HTTP/1.1 200 OK
	// Content-Type: text/event-stream
	// Connection: close
	//
	// data: 0
	//
	// data: 1
}

func ExampleServer_Shutdown() {
	s := &shockwave.Server{Handler: func(c *shockwave.Ctx) { c.SendString("", "ok") }}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	served := make(chan error)
	go func() { served <- s.Serve(ln) }()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	fmt.Println(s.Shutdown(ctx))
	fmt.Println(<-served)
	// Output:
	// <nil>
	// shockwave: server closed
}
