// otlp is the OTLP receiver of the OpenTelemetry Collector, with its file exporter behind it. Without the rest of the
// Collector it is built in a fraction of the time.
//
//	otlp '{"otlp": {...}, "file": {...}}'
//
// Both sections are those of a configuration of the Collector.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/open-telemetry/opentelemetry-collector-contrib/exporter/fileexporter"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	var sections map[string]map[string]any
	if err := json.Unmarshal([]byte(os.Args[1]), &sections); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	parts, err := parts(ctx, sections)
	if err != nil {
		return err
	}
	for _, part := range parts {
		if err := part.Start(ctx, componenttest.NewNopHost()); err != nil {
			return err
		}
	}
	<-ctx.Done()
	for i := len(parts) - 1; i >= 0; i-- {
		if err := parts[i].Shutdown(context.Background()); err != nil {
			return err
		}
	}
	return nil
}

// parts are the exporters and the receivers before them, in the order in which they start.
func parts(ctx context.Context, sections map[string]map[string]any) ([]component.Component, error) {
	telemetry := componenttest.NewNopTelemetrySettings()
	files, receivers := fileexporter.NewFactory(), otlpreceiver.NewFactory()
	toFile, toReceive := files.CreateDefaultConfig(), receivers.CreateDefaultConfig()
	if err := confmap.NewFromStringMap(sections["file"]).Unmarshal(toFile); err != nil {
		return nil, err
	}
	if err := confmap.NewFromStringMap(sections["otlp"]).Unmarshal(toReceive); err != nil {
		return nil, err
	}
	export := exporter.Settings{ID: component.NewID(files.Type()), TelemetrySettings: telemetry}
	logs, err := files.CreateLogs(ctx, export, toFile)
	if err != nil {
		return nil, err
	}
	traces, err := files.CreateTraces(ctx, export, toFile)
	if err != nil {
		return nil, err
	}
	receive := receiver.Settings{ID: component.NewID(receivers.Type()), TelemetrySettings: telemetry}
	ofLogs, err := receivers.CreateLogs(ctx, receive, toReceive, logs)
	if err != nil {
		return nil, err
	}
	ofTraces, err := receivers.CreateTraces(ctx, receive, toReceive, traces)
	if err != nil {
		return nil, err
	}
	return []component.Component{logs, traces, ofLogs, ofTraces}, nil
}
