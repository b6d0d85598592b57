// Command client asks the API of the cluster that it runs in, where client-go finds it. For each path it prints the status
// and the answer. With -token it prints the token that it has, and with -stay it waits until it is ended.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) > 0 && args[0] == "-stay" {
		<-ctx.Done()
		return nil
	}
	config, err := rest.InClusterConfig()
	if err != nil {
		return err
	}
	if len(args) > 0 && args[0] == "-token" {
		token, err := os.ReadFile(config.BearerTokenFile)
		if err == nil {
			fmt.Println(string(token))
		}
		return err
	}
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	for _, path := range args {
		result, code := client.RESTClient().Get().AbsPath(path).Do(ctx), 0
		answer, err := result.StatusCode(&code).Raw()
		if code == 0 {
			return err
		}
		fmt.Println(code, string(answer))
	}
	return nil
}
