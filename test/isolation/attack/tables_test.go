package attack

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env/suite"
)

const (
	asTable = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
	// wideObjects are more than a table without pages may have.
	wideObjects = 13
)

// What upstream would make gigabytes of in memory.
var _ = Describe("Tables of large objects", func() {
	wides := schema.GroupVersionResource{Group: "wide.example.com", Version: "v1", Resource: "wides"}
	const path = "/apis/wide.example.com/v1/namespaces/default/wides"
	var n tenant.Name

	BeforeEach(func(ctx SpecContext) {
		n = tenantry.NewTenant(ctx, "wide")
		definition := suite.NewDefinition(wides, "Wide", apiextensionsv1.NamespaceScoped)
		for i := range 4 { // all show the same
			definition.Spec.Versions[0].AdditionalPrinterColumns = append(definition.Spec.Versions[0].AdditionalPrinterColumns,
				apiextensionsv1.CustomResourceColumnDefinition{Name: fmt.Sprintf("c%d", i), Type: "string", JSONPath: ".s"})
		}
		_, err := suite.Definitions(tenantry.Config(n)).Create(ctx, definition, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		client := suite.Dynamic(tenantry.Config(n)).Resource(wides).Namespace("default")
		for i := range wideObjects {
			object := newObject(wides, "Wide", fmt.Sprintf("w%02d", i))
			object.Object["s"] = []any{strings.Repeat(`\`, 700_000)}
			Eventually(func() error {
				_, err := client.Create(ctx, object, metav1.CreateOptions{})
				return err
			}, "30s").Should(Succeed())
		}
	}, NodeTimeout(2*time.Minute))

	// ask returns the answer to a request, of a watch the first event.
	ask := func(ctx context.Context, accept, query string) answer {
		GinkgoHelper()
		wire := newWire(tenantry.Config(n))
		header := wire.header(call{}, nil)
		header.Set("Accept", accept)
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+wire.host+n.Root()+path+query, nil)
		Expect(err).NotTo(HaveOccurred())
		request.Header = header
		response, err := wire.client.Do(request)
		Expect(err).NotTo(HaveOccurred())
		if strings.HasPrefix(query, "?watch") {
			defer response.Body.Close()
			event, err := bufio.NewReader(response.Body).ReadString('\n')
			Expect(err).NotTo(HaveOccurred())
			return answer{response.StatusCode, event}
		}
		return read(response)
	}

	It("come in pages, or not at all", func(ctx SpecContext) {
		got := ask(ctx, asTable, "")
		Expect(got.status).To(Equal(http.StatusRequestEntityTooLarge))
		Expect(got.body).To(ContainSubstring("these wides.wide.example.com have more than"))

		var names []string
		for token, more := "", true; more; more = token != "" {
			from := "&resourceVersion=0"
			if token != "" {
				from = "&continue=" + token
			}
			got := ask(ctx, asTable, "?limit=500"+from)
			Expect(got.status).To(Equal(http.StatusOK), "%.500s", got.body)
			page := metav1.Table{}
			Expect(json.Unmarshal([]byte(got.body), &page)).To(Succeed())
			Expect(len(page.Rows)).To(BeNumerically("<=", 2))
			for _, row := range page.Rows {
				names = append(names, row.Cells[0].(string))
			}
			token = page.Continue
		}
		Expect(names).To(HaveLen(wideObjects))

		got = ask(ctx, "application/json", "")
		Expect(got.status).To(Equal(http.StatusOK), "%.500s", got.body)
		all := unstructured.UnstructuredList{}
		Expect(all.UnmarshalJSON([]byte(got.body))).To(Succeed())
		Expect(all.Items).To(HaveLen(wideObjects))
	}, NodeTimeout(2*time.Minute))

	It("are no events of watches", func(ctx SpecContext) {
		for _, query := range []string{"", "&resourceVersion=0", "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"} {
			got := ask(ctx, asTable, "?watch=1"+query)
			Expect(got.status).To(Equal(http.StatusOK))
			Expect(got.body).To(HavePrefix(`{"type":"ERROR"`))
			Expect(got.body).To(ContainSubstring(`has at most 262144 in a space; watch as application/json`))
		}
		Expect(ask(ctx, "application/json", "?watch=1").body).To(HavePrefix(`{"type":"ADDED"`))
	}, NodeTimeout(2*time.Minute))
})
