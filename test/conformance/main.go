package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"

	"golang.org/x/sync/errgroup"
)

const (
	conformance = `\[sig-(api-machinery|auth)\].*\[Conformance\]`
	// What is skipped waits for pods to run, a webhook's or an API server's
	// among them, or takes a cluster for itself.
	needsPods = `AdmissionWebhook|CustomResourceConversionWebhook|CustomResourceFieldSelectors|Aggregator|` +
		`OrderedNamespaceDeletion|all pods are removed|mount an API token|mount projected service|OIDC discovery|\[Disruptive\]`
	// compaction waits for etcd to be compacted, for more than five minutes.
	compaction = `|compacted away`
)

// clusters are where the tests run, the stock server first.
var clusters = []string{"stock", "space-a", "space-b"}

func main() {
	bin := flag.String("bin", "bin", "Directory with tenantry, kube-apiserver, kube-controller-manager and conformance.test.")
	out := flag.String("out", "", "Directory for logs and reports. A temporary one if empty.")
	focus := flag.String("focus", conformance, "Which tests to run, a regular expression.")
	skip := flag.String("skip", needsPods+compaction, "Which tests to leave out, a regular expression.")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	if err := run(ctx, *bin, *out, *focus, *skip); err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, bin, out, focus, skip string) error {
	if out == "" {
		dir, err := os.MkdirTemp("", "tenantry-conformance-")
		if err != nil {
			return err
		}
		out = dir
	}
	bin, err := filepath.Abs(bin)
	if err != nil {
		return err
	}
	fmt.Println("logs and reports in", out)
	stock, err := startStock(ctx, bin, filepath.Join(out, "stock"))
	if err != nil {
		return fmt.Errorf("starting the stock server: %w", err)
	}
	defer stock.stop()
	tenantry, err := startTenantry(ctx, bin, filepath.Join(out, "tenantry"), clusters[1:])
	if err != nil {
		return fmt.Errorf("starting Tenantry: %w", err)
	}
	defer tenantry.stop()
	kubeconfigs := append(stock.kubeconfigs, tenantry.kubeconfigs...)
	reports := make([]report, len(clusters))
	group, groupCtx := errgroup.WithContext(ctx)
	for i, cluster := range clusters {
		group.Go(func() (err error) {
			reports[i], err = suite(groupCtx, filepath.Join(bin, "conformance.test"), filepath.Join(out, cluster), kubeconfigs[i], focus, skip)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return compare(os.Stdout, clusters, reports)
}

// suite runs the tests against one cluster.
func suite(ctx context.Context, binary, out, kubeconfig, focus, skip string) (report, error) {
	log, err := os.Create(out + ".log")
	if err != nil {
		return nil, err
	}
	defer log.Close()
	command := exec.CommandContext(ctx, binary, "-kubeconfig", kubeconfig, "-provider", "local",
		"-allowed-not-ready-nodes=-1", "-num-nodes=1", "-test.timeout=2h", "-ginkgo.timeout=2h", "-ginkgo.no-color",
		"-ginkgo.focus", focus, "-ginkgo.skip", skip, "-ginkgo.json-report", out+".json")
	command.Stdout, command.Stderr = log, log
	var failed *exec.ExitError
	if err := command.Run(); err != nil && !errors.As(err, &failed) { // failed tests are in the report
		return nil, fmt.Errorf("running the suite: %w", err)
	}
	return readReport(out + ".json")
}
