package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"github.com/tenantry/tenantry/test/conformance/upstream"
	"github.com/tenantry/tenantry/test/harness"
)

const (
	suites = `\[sig-(api-machinery|auth)\]`
	// needsContainers looks into a pod, or runs an API server in one.
	needsContainers = `Aggregat(or|ed APIServer)|sample-apiserver|mount an API token|mount projected service|OIDC discovery|` +
		`InClusterConfig|ownership and permission|by-node|Projected PodCertificate|ClusterTrustBundleProjection\] should`
	// needsNodes asks nodes, or how many pods the cluster's nodes can take.
	needsNodes = `|Node(Authorizer|Authenticator)|for nodes|keep the rc around|orphan pods created by rc if delete options|` +
		`both valid owner and owner that's waiting`
	// needsMore takes a cluster for itself, one of a provider or with gates and
	// signers that are off by default, or waits for etcd to be compacted for more
	// than five minutes.
	needsMore = `|\[Disruptive\]|OffByDefault|StorageVersionAPI|building a client with a CSR|compacted away`
)

// explained are the tests that a space fails on purpose, and why.
var explained = map[string]string{
	"requests can be classified by adding FlowSchema":           "a space's FlowSchemas have no effect: the server is shared",
	"StorageVersionMigration CRUD Tests":                        "migrations are the platform's: all spaces are in one storage",
	"requested by client-go's List method":                      "compares protobuf with JSON, in which objects have metadata.selfLink",
	"volume attributes class scope (quota set to pvc count: 1)": "waits for claims to be bound to volumes, by nobody in a space",
}

// clusters are where the tests run, the stock server first.
var clusters = []string{"stock", "space-a", "space-b"}

func main() {
	bin := flag.String("bin", "bin", "Directory with tenantry, kube-apiserver, kube-controller-manager and conformance.test.")
	out := flag.String("out", "", "Directory for logs and reports. A temporary one if empty.")
	focus := flag.String("focus", suites, "Which tests to run, a regular expression.")
	skip := flag.String("skip", needsContainers+needsNodes+needsMore, "Which tests to leave out, a regular expression.")
	flag.Parse()
	harness.Main("conformance", func(ctx context.Context) error {
		if done, err := inOwnNetwork(ctx); done || err != nil {
			return err
		}
		return run(ctx, *bin, *out, *focus, *skip)
	})
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
	tenantry, kubeconfigs, err := startTenantry(ctx, bin, filepath.Join(out, "tenantry"), clusters[1:])
	if err != nil {
		return fmt.Errorf("starting Tenantry: %w", err)
	}
	defer tenantry.End(os.Interrupt)
	kubeconfigs = append([]string{stock.kubeconfig}, kubeconfigs...)
	reports := make([]upstream.Report, len(clusters))
	group, groupCtx := errgroup.WithContext(ctx)
	for i, cluster := range clusters {
		if err := startNode(groupCtx, kubeconfigs[i], filepath.Join(bin, "agnhost"), filepath.Join(out, cluster+"-pods")); err != nil {
			return fmt.Errorf("starting the node of %s: %w", cluster, err)
		}
		group.Go(func() (err error) {
			reports[i], err = upstream.Run(groupCtx, filepath.Join(bin, "conformance.test"), filepath.Join(out, cluster), kubeconfigs[i],
				"-ginkgo.focus", focus, "-ginkgo.skip", skip)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return compare(os.Stdout, clusters, reports, explained)
}
