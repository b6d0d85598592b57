//go:build node

package node

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"

	"github.com/tenantry/tenantry/test/conformance/upstream"
)

// processes is how many run tests in each space, most of whose time is waiting. Each takes one part of them after
// the other: some tests take minutes.
const processes, parts = 6, 18

// "make e2e-node-conformance" has what it needs: the binary and the images of these tests.
var _ = Describe("upstream's tests of pods", Ordered, Label("conformance"), func() {
	tenants := []string{"acme", "globex"}
	var tenantry *standalone
	binary := filepath.Join(root, "bin", "conformance.test")
	// What the tests say is there for whoever looks for the reason of a failure.
	out := filepath.Join(root, "bin", "conformance")

	BeforeAll(func() {
		tenantry = startOnHost("--network-isolation=Unenforced", true)
		for _, tenant := range tenants {
			tenantry.as(tenant)
			must("--kubeconfig", tenantry.admin(), "patch", "tenant", tenant, "--type=merge", "-p", `{"spec":{"workloads":{"nodePorts":"Allowed"},"nodePlacement":{"mode":"Enabled"}}}`)
		}
		must("--namespace", "tenantry-workloads", "rollout", "status", "deployment/dns", "--timeout=3m")
	})

	It("are the binary's", func(ctx SpecContext) {
		Expect(os.MkdirAll(out, 0o755)).To(Succeed())
		all, err := upstream.Conformance()
		Expect(err).NotTo(HaveOccurred())
		there, err := upstream.Run(ctx, binary, filepath.Join(out, "all"), filepath.Join(tenantry.dir, tenants[0]+".kubeconfig"), "-ginkgo.dry-run", "-ginkgo.focus", `\[Conformance\]`)
		Expect(err).NotTo(HaveOccurred())
		Expect(slices.Collect(maps.Keys(there))).To(ConsistOf(all))
	})

	It("pass in two spaces at once", func() {
		tests := upstream.Pods()
		if file := os.Getenv("TESTS"); file != "" {
			content, err := os.ReadFile(file)
			Expect(err).NotTo(HaveOccurred())
			tests = strings.Split(strings.TrimSpace(string(content)), "\n")
		}
		reports := make([]upstream.Report, len(tenants)*parts)
		group, ctx := errgroup.WithContext(context.Background())
		group.SetLimit(len(tenants) * processes)
		for i := range reports {
			tenant := tenants[i%len(tenants)]
			focus := upstream.Focus(tests, i/len(tenants), parts)
			group.Go(func() (err error) {
				reports[i], err = upstream.Run(ctx, binary, filepath.Join(out, fmt.Sprintf("%s-%d", tenant, i/len(tenants))),
					filepath.Join(tenantry.dir, tenant+".kubeconfig"), "-ginkgo.focus", focus)
				return err
			})
		}
		Expect(group.Wait()).To(Succeed())
		for i, tenant := range tenants {
			outcomes := make(upstream.Report)
			for j := range parts {
				maps.Copy(outcomes, reports[i+j*len(tenants)])
			}
			want := make(upstream.Report)
			for _, test := range tests {
				want[test] = upstream.Passed
			}
			Expect(cmp.Diff(want, outcomes)).To(BeEmpty(), "in the space of %s; see %s", tenant, out)
		}
	})
})
