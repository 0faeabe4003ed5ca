package main

import (
	"context"
	"os"
	"testing"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"titan.test/kubernetes/cluster"
)

const (
	// asking in the environment makes this program the command that is run.
	asking = "TITAN_CLUSTER_ASK"
	// found is its exit status if it finds the API server.
	found = 7
	// patience bounds how long it asks.
	patience = 20 * time.Second
)

func TestMain(m *testing.M) {
	if os.Getenv(asking) != "" {
		os.Exit(ask())
	}
	os.Exit(cluster.Inside(m.Run))
}

// ask lists the nodes.
func ask() int {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return 1
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return 1
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	nodes, err := client.CoreV1().Nodes().List(ctx, meta.ListOptions{})
	if err != nil || len(nodes.Items) != 1 {
		return 1
	}
	return found
}

func TestACommandFindsTheAPIServer(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(asking, "1")
	if status := run(program); status != found {
		t.Errorf("its exit status is %d", status)
	}
}
