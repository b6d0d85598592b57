package operator

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tenantry/tenantry/api/v1alpha1"
)

var _ = Describe("The policy of deletions", Ordered, func() {
	const confirmed = "tenantry.io/confirm-deletion"
	cp := newControlPlane("kept")
	// tried says what becomes of a deletion.
	tried := func(ctx context.Context, object client.Object) error {
		return admin.Delete(ctx, object, client.DryRunAll)
	}
	confirm := func(ctx context.Context, object client.Object, value string) {
		GinkgoHelper()
		patch := `{"metadata": {"annotations": {"` + confirmed + `": "` + value + `"}}}`
		Expect(admin.Patch(ctx, object, client.RawPatch("application/merge-patch+json", []byte(patch)))).To(Succeed())
	}

	BeforeAll(func(ctx SpecContext) {
		createAvailable(ctx, cp)
		apply(ctx, "default/deletion.yaml")
		DeferCleanup(func(ctx SpecContext) {
			of := metav1.ObjectMeta{Name: "tenantry-deletion"}
			Expect(admin.Delete(ctx, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: of})).To(Succeed())
			Expect(admin.Delete(ctx, &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: of})).To(Succeed())
			Eventually(func() error { return tried(ctx, newControlPlane("kept")) }).Should(Succeed())
		})
		Eventually(func() bool { return apierrors.IsInvalid(tried(ctx, cp)) || apierrors.IsForbidden(tried(ctx, cp)) }).Should(BeTrue())
	})

	It("refuses to delete a ControlPlane by accident", func(ctx SpecContext) {
		Expect(tried(ctx, cp)).To(MatchError(SatisfyAll(ContainSubstring(`ControlPlane "kept" may have Tenants`), ContainSubstring(confirmed+"=true"))))
		Expect(admin.DeleteAllOf(ctx, newControlPlane(""), client.InNamespace(namespace), client.DryRunAll)).To(MatchError(ContainSubstring("may have Tenants")))
		confirm(ctx, cp, "yes")
		Expect(tried(ctx, cp)).NotTo(Succeed())
		confirm(ctx, cp, "true")
		Expect(tried(ctx, cp)).To(Succeed())
		confirm(ctx, cp, "false")
	})

	It("refuses to delete what defines them", func(ctx SpecContext) {
		definition := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "controlplanes.tenantry.io"}}
		Expect(tried(ctx, definition)).To(MatchError(ContainSubstring(`with the definition "controlplanes.tenantry.io" go all objects of its kind`)))
		confirm(ctx, definition, "true")
		Expect(tried(ctx, definition)).To(Succeed())
		confirm(ctx, definition, "false")
	})

	It("lets everything else go", func(ctx SpecContext) {
		other := parse("never-made", `{}`)
		other.SetNamespace("unwatched-too")
		Expect(admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "unwatched-too"}})).To(Succeed())
		Expect(admin.Create(ctx, other)).To(Succeed())
		Expect(admin.Delete(ctx, other)).To(Succeed(), "one that never had keys")

		foreign := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "widgets.example.com"}}
		foreign.Spec = apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: apiextensionsv1.ClusterScoped, Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Kind: "Widget", Singular: "widget", ListKind: "WidgetList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"}}}},
		}
		Expect(admin.Create(ctx, foreign)).To(Succeed())
		Expect(admin.Delete(ctx, foreign)).To(Succeed())

		byNamespace := rest.CopyConfig(cluster.Config)
		byNamespace.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:kube-system:namespace-controller", Groups: []string{"system:masters"}}
		controller, err := client.New(byNamespace, client.Options{Scheme: admin.Scheme()})
		Expect(err).NotTo(HaveOccurred())
		Expect(controller.Delete(ctx, &v1alpha1.ControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: cp.Name}}, client.DryRunAll)).To(Succeed(), "with its namespace")
	})
})
