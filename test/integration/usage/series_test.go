package usage

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-base/metrics/legacyregistry"

	servermetrics "github.com/tenantry/tenantry/internal/server/metrics"
	"github.com/tenantry/tenantry/test/env/suite"
)

// mark is in the names of everything that the specs below define.
const mark = "seriesmark"

var _ = Describe("Series of what tenants define", func() {
	It("are as many for four times as many definitions", func(ctx SpecContext) {
		own := newSpace(ctx)
		own.defineAndUse(ctx, 0, 2)
		few := series()
		own.defineAndUse(ctx, 2, 8)
		many := series()
		// One definition had 500 and more; a few begin at any time.
		Expect(len(many)-len(few)).To(BeNumerically("<", 300), "of %d series", len(many))
		Expect(named(many)).To(BeEmpty(), "series with names that a tenant has chosen")
	}, SpecTimeout(3*specTimeout))

	It("are not in metrics that nobody bounds", func() {
		bounded := servermetrics.Allowed()
		var unbounded []string
		for name, labels := range described() {
			for _, label := range labels {
				switch label {
				case "resource", "crd", "crd_name", "policy", "policy_binding":
					if _, ok := bounded[name+","+label]; !ok && !fixed[name] {
						unbounded = append(unbounded, name+","+label)
					}
				}
			}
		}
		slices.Sort(unbounded)
		Expect(unbounded).To(BeEmpty(), "labels that can be what a tenant defines; bound them in internal/server/metrics")
	})
})

// fixed are metrics whose resources are the platform's, or Kubernetes' own.
var fixed = map[string]bool{
	"job_controller_stale_sync_skips_total": true, "replicaset_controller_stale_sync_skips_total": true,
	"horizontal_pod_autoscaler_controller_stale_sync_skips_total": true, "statefulset_controller_stale_sync_skips_total": true,
	"pod_security_errors_total": true, "pod_security_evaluations_total": true, "pod_security_exemptions_total": true,
	"tenantry_published_copies": true, "tenantry_published_objects": true,
	"tenantry_tenant_quota_hard": true, "tenantry_tenant_quota_used": true, // of spec.quota
}

// defineAndUse defines resources, writes and reads an object of each and makes a webhook
// that is called for it.
func (s *space) defineAndUse(ctx context.Context, from, count int) {
	GinkgoHelper()
	client := suite.Dynamic(tenantry.Config(s.name))
	for i := from; i < from+count; i++ {
		resource := schema.GroupVersionResource{Group: fmt.Sprintf("%s%d.example", mark, i), Version: fmt.Sprintf("v%d", 100+i), Resource: fmt.Sprintf("%s%ds", mark, i)}
		kind := fmt.Sprintf("Seriesmark%d", i)
		_, err := suite.Definitions(tenantry.Config(s.name)).Create(ctx, suite.NewDefinition(resource, kind, apiextensionsv1.NamespaceScoped), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		s.hook(ctx, i, resource)
		object := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": resource.GroupVersion().String(), "kind": kind, "metadata": map[string]any{"name": "x"},
		}}
		objects := client.Resource(resource).Namespace("default")
		Eventually(func() error {
			_, err := objects.Create(ctx, object, metav1.CreateOptions{})
			return err
		}).WithContext(ctx).Should(Succeed())
		Eventually(func() error {
			_, err := objects.List(ctx, metav1.ListOptions{})
			return err
		}).WithContext(ctx).Should(Succeed())
		Expect(objects.Delete(ctx, "x", metav1.DeleteOptions{})).To(Succeed())
	}
}

// hook makes a webhook that does not answer and is ignored.
func (s *space) hook(ctx context.Context, i int, resource schema.GroupVersionResource) {
	GinkgoHelper()
	url, ignore, none := fmt.Sprintf("https://127.0.0.1:1/%s%d", mark, i), admissionregistrationv1.Ignore, admissionregistrationv1.SideEffectClassNone
	_, err := s.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(ctx, &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s%d", mark, i)},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: fmt.Sprintf("%s%d.example.com", mark, i), ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &url},
			FailurePolicy: &ignore, SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
			Rules: []admissionregistrationv1.RuleWithOperations{{Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.OperationAll}, Rule: admissionregistrationv1.Rule{
				APIGroups: []string{resource.Group}, APIVersions: []string{"*"}, Resources: []string{"*"},
			}}},
		}},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
}

// series returns those that /metrics shows, without buckets.
func series() (found []string) {
	GinkgoHelper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	Expect(err).NotTo(HaveOccurred())
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			shown := family.GetName()
			for _, label := range metric.GetLabel() {
				shown += "," + label.GetName() + "=" + label.GetValue()
			}
			found = append(found, shown)
		}
	}
	return found
}

func named(series []string) (found []string) {
	for _, s := range series {
		if strings.Contains(strings.ToLower(s), mark) {
			found = append(found, s)
		}
	}
	return found
}

var description = regexp.MustCompile(`^Desc\{fqName: "([^"]*)".*variableLabels: \{(.*)\}\}$`)

// described returns the labels of all metrics of the process, by name.
func described() map[string][]string {
	GinkgoHelper()
	collector, ok := legacyregistry.Registerer().(prometheus.Collector)
	Expect(ok).To(BeTrue(), "the registry does not describe its metrics")
	found, done := map[string][]string{}, make(chan struct{})
	descs := make(chan *prometheus.Desc)
	go func() {
		defer close(done)
		for desc := range descs {
			if parts := description.FindStringSubmatch(desc.String()); parts != nil {
				found[parts[1]] = strings.Split(parts[2], ",")
			}
		}
	}()
	collector.Describe(descs)
	close(descs)
	<-done
	Expect(found).To(HaveKey("apiserver_request_total"))
	return found
}
