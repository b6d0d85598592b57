package quota

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

var _ = Describe("The limits of a Tenant", func() {
	It("are refused if nothing is counted by their name, or if they are no limit", func(ctx SpecContext) {
		n := tenantry.NewTenant(ctx, "limits")
		for quota, want := range map[string]string{
			`{"pod": "1"}`:               "spec.quota[pod]: Invalid value: \"pod\": nothing is counted by this name; allowed are",
			`{"count/pod": "1"}`:         "spec.quota[count/pod]: Invalid value: \"count/pod\": spaces have no resource \"pod\" in API group \"\"",
			`{"count/podlists": "1"}`:    "spec.quota[count/podlists]",
			`{"count/configmaps.": "1"}`: "spec.quota[count/configmaps.]: Invalid value: \"count/configmaps.\": \"count/configmaps.\" is no name of a limit in a ResourceQuota",
			`{"pods": "-1"}`:             "spec.quota[pods]: Invalid value: \"-1\": must not be negative",
			`{"pods": "1500m"}`:          "spec.quota[pods]: Invalid value: \"1500m\": must be a whole number",
			`{"requests.gpu": "1"}`:      "spec.quota[requests.gpu]",
			`{"pods": "many"}`:           "quantities must match",
			`{"pods": {"hard": "1"}}`:    "",
		} {
			Expect(tenantry.SetSpec(ctx, n, "quota", quota)).To(MatchError(ContainSubstring(want)), quota)
			refused := &unstructured.Unstructured{}
			Expect(refused.UnmarshalJSON(fmt.Appendf(nil, `{"apiVersion": "tenantry.io/v1alpha1", "kind": "Tenant", "metadata": {"name": "refused"}, "spec": {"quota": %s}}`, quota))).To(Succeed())
			_, err := tenantry.Tenants().Create(ctx, refused, metav1.CreateOptions{})
			Expect(err).To(MatchError(ContainSubstring(want)), quota)
		}
	}, SpecTimeout(time.Minute))

	It("from before a rule keep nobody from changing or deleting the Tenant", func(ctx SpecContext) {
		n := tenantry.NewTenant(ctx, "earlier")
		By("storing what an earlier server has accepted")
		Eventually(func(g Gomega) {
			response, err := tenantry.Etcd().Get(ctx, "/registry/", clientv3.WithPrefix())
			g.Expect(err).NotTo(HaveOccurred())
			for _, kv := range response.Kvs {
				if !strings.HasSuffix(string(kv.Key), "/tenants/"+n.String()) {
					continue
				}
				object := map[string]any{}
				g.Expect(json.Unmarshal(kv.Value, &object)).To(Succeed())
				g.Expect(object["kind"]).To(Equal("Tenant"))
				object["spec"] = map[string]any{"quota": map[string]any{"pod": "1", "pods": "-1"}}
				value, err := json.Marshal(object)
				g.Expect(err).NotTo(HaveOccurred())
				done, err := tenantry.Etcd().Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(string(kv.Key)), "=", kv.ModRevision)).
					Then(clientv3.OpPut(string(kv.Key), string(value))).Commit()
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(done.Succeeded).To(BeTrue())
				return
			}
			g.Expect(response.Kvs).To(BeEmpty(), "no key of the Tenant")
		}).Should(Succeed())
		By("changing it otherwise")
		_, err := tenantry.Tenants().Patch(ctx, n.String(), types.MergePatchType, []byte(`{"metadata": {"labels": {"l": "v"}}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(tenantry.SetSpec(ctx, n, "quota", `{"services": "1"}`)).To(Succeed(), "merged with what is there")
		By("not changing what is wrong to what is wrong, too")
		Expect(tenantry.SetSpec(ctx, n, "quota", `{"pods": "-2"}`)).To(MatchError(ContainSubstring("spec.quota[pods]")))
		found, err := tenantry.Tenants().Get(ctx, n.String(), metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		quota, _, err := unstructured.NestedStringMap(found.Object, "spec", "quota")
		Expect(err).NotTo(HaveOccurred())
		Expect(quota).To(Equal(map[string]string{"pod": "1", "pods": "-1", "services": "1"}))
		tenantry.DeleteTenant(ctx, n)
	}, SpecTimeout(time.Minute))
})
