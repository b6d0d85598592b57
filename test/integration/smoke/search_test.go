package smoke

import (
	"path/filepath"
	"runtime"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tenantry/tenantry/internal/tenant"
)

var _ = Describe("A server without --search", func() {
	It("has no search, no goroutine for it, no file and no watch of everything", func(ctx SpecContext) {
		err := tenantry.Client(tenant.System).CoreV1().RESTClient().Get().AbsPath("/search").Do(ctx).Error()
		Expect(err).To(Satisfy(apierrors.IsNotFound))
		stacks := make([]byte, 64<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		Expect(len(stacks)).To(BeNumerically("<", cap(stacks)), "some goroutines are missing")
		Expect(string(stacks)).To(And(ContainSubstring("internal/server"), Not(ContainSubstring("internal/search")), Not(ContainSubstring("storage.(*Stream)")), Not(ContainSubstring("modernc.org/sqlite"))))
		Expect(filepath.Join(tenantry.Dir(), "search")).NotTo(BeAnExistingFile())
	})
})
