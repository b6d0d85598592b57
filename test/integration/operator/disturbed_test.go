package operator

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tenantry/tenantry/api/v1alpha1"
)

func kindOf(object client.Object) string { return fmt.Sprintf("%T", object) }

// newFrom returns what was parsed, in its type.
func newFrom(parsed *unstructured.Unstructured) *v1alpha1.ControlPlane {
	GinkgoHelper()
	cp := &v1alpha1.ControlPlane{}
	Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(parsed.Object, cp)).To(Succeed())
	return cp
}

// content returns the part of an object that somebody spoils below.
func content(object client.Object) any {
	switch o := object.(type) {
	case *corev1.ServiceAccount:
		return o.AutomountServiceAccountToken
	case *corev1.Service:
		return o.Spec.Selector
	case *corev1.Secret:
		return o.Data
	case *appsv1.Deployment:
		return []any{o.Spec.Template.Spec.Containers[0].Image, *o.Spec.Replicas}
	case *appsv1.StatefulSet:
		return []any{o.Spec.Template.Spec.Containers[0].Image, *o.Spec.Replicas}
	case *policyv1.PodDisruptionBudget:
		return o.Spec.MaxUnavailable
	case *networkingv1.NetworkPolicy:
		return o.Spec.PolicyTypes
	default:
		return nil
	}
}

func spoil(object client.Object) {
	switch o := object.(type) {
	case *corev1.ServiceAccount:
		o.AutomountServiceAccountToken = new(true)
	case *corev1.Service:
		o.Spec.Selector["app.kubernetes.io/instance"] = "other"
	case *corev1.Secret:
		for key := range o.Data {
			o.Data[key] = []byte("spoilt")
		}
	case *appsv1.Deployment:
		o.Spec.Template.Spec.Containers[0].Image = "spoilt"
		o.Spec.Replicas = new(int32(0))
	case *appsv1.StatefulSet:
		o.Spec.Template.Spec.Containers[0].Image = "spoilt"
		o.Spec.Replicas = new(int32(0))
	case *policyv1.PodDisruptionBudget:
		o.Spec.MaxUnavailable = new(intstr.FromInt32(0))
	case *networkingv1.NetworkPolicy:
		o.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeEgress}
	}
}

// kinds are ControlPlanes of both kinds of storage, and one that runs pods, by a name.
var kinds = []func(string) *v1alpha1.ControlPlane{newControlPlane, newOnEtcd, newRunning}

// parts calls do for each object that is made for a ControlPlane, those that several kinds have in
// common once. which selects from owned or made.
func parts(which func(*v1alpha1.ControlPlane) []client.Object, do func(build func(string) *v1alpha1.ControlPlane, i int, object client.Object)) {
	known := map[string]bool{}
	for _, build := range kinds {
		for i, object := range which(build("one")) {
			if id := kindOf(object) + object.GetName(); !known[id] {
				known[id] = true
				do(build, i, object)
			}
		}
	}
}

var _ = Describe("What is made for a ControlPlane", func() {
	parts(owned, func(build func(string) *v1alpha1.ControlPlane, i int, object client.Object) {
		It(fmt.Sprintf("comes back: %T %s", object, object.GetName()), func(ctx SpecContext) {
			neighbour := build("neighbour")
			createAvailable(ctx, neighbour)
			before := versions(ctx, made(neighbour))
			cp := build("one")
			createAvailable(ctx, cp)
			object := owned(cp)[i]
			get(ctx, object, object.GetName())
			want, labels := content(object.DeepCopyObject().(client.Object)), object.GetLabels()

			By("being edited")
			change(ctx, object, object.GetName(), spoil)
			if kept, isSecret := want.(map[string][]byte); isSecret {
				Eventually(func() map[string][]byte { return secret(ctx, object.GetName()).Data }).Should(SatisfyAll(
					HaveLen(len(kept)), Not(ContainElement([]byte("spoilt")))), "what was spoilt is made anew")
			} else {
				Eventually(func() any { return content(get(ctx, object, object.GetName())) }).Should(Equal(want))
			}

			By("losing its labels")
			change(ctx, object, object.GetName(), func(o client.Object) { o.SetLabels(nil) })
			Eventually(func() map[string]string { return get(ctx, object, object.GetName()).GetLabels() }).Should(Equal(labels))

			By("being deleted")
			uid := uidOf(ctx, object)
			Expect(admin.Delete(ctx, object)).To(Succeed())
			Eventually(func() any { return uidOf(ctx, object) }).ShouldNot(Equal(uid))
			Expect(versions(ctx, made(neighbour))).To(Equal(before), "the neighbour was written")
		})
	})

	It("does not take the place of what is somebody else's", func(ctx SpecContext) {
		parts(made, func(build func(string) *v1alpha1.ControlPlane, i int, object client.Object) {
			By(kindOf(object) + " " + object.GetName())
			// A cache may know what another ControlPlane of that name had, a moment ago.
			cp := build(fmt.Sprintf("taken-%d%d", len(made(build("one"))), i))
			foreign := foreigner(made(cp)[i])
			Expect(admin.Create(ctx, foreign)).To(Succeed())
			giveEtcdSecret(ctx, cp)
			Expect(admin.Create(ctx, cp)).To(Succeed())
			condition := expectCondition(ctx, cp.Name, v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonNameTaken)
			Expect(condition.Message).To(ContainSubstring(foreign.GetName()))
			expectCondition(ctx, cp.Name, v1alpha1.ConditionProgressing, metav1.ConditionFalse, v1alpha1.ReasonBlocked)
			version := foreign.GetResourceVersion()
			Expect(get(ctx, foreign, foreign.GetName()).GetResourceVersion()).To(Equal(version), "it was written")

			Expect(admin.Delete(ctx, foreign)).To(Succeed())
			change(ctx, cp, cp.Name, func(cp *v1alpha1.ControlPlane) { cp.Spec.Expose.Names = []string{"again"} })
			expectCondition(ctx, cp.Name, v1alpha1.ConditionDegraded, metav1.ConditionFalse, v1alpha1.ReasonAsExpected)
			Expect(admin.Delete(ctx, cp)).To(Succeed())
			for _, object := range made(cp) {
				Expect(client.IgnoreNotFound(admin.Delete(ctx, object))).To(Succeed())
			}
		})
	}, NodeTimeout(startTimeout))

	It("is the same again for the next ControlPlane of the name, as far as it is keys", func(ctx SpecContext) {
		cp := newControlPlane("twice")
		createAvailable(ctx, cp)
		keys := secret(ctx, "twice-keys").Data

		By("having keys that nothing proves, as of an operator before")
		proof := secret(ctx, "twice-keys").Annotations[proofAnnotation]
		Expect(proof).NotTo(BeEmpty())
		change(ctx, &corev1.Secret{}, "twice-keys", func(s *corev1.Secret) { s.Annotations = nil })
		Eventually(func() map[string]string { return secret(ctx, "twice-keys").Annotations }).Should(HaveKeyWithValue(proofAnnotation, proof))

		By("having a key beside them that somebody else knows")
		planted := named(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Labels: secret(ctx, "twice-keys").Labels}, Data: keys}, "twice-service-account-key-9")
		Expect(admin.Create(ctx, planted)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(admin.Delete(ctx, planted))).To(Succeed()) })
		Expect(admin.Delete(ctx, cp)).To(Succeed())
		for _, object := range owned(cp) { // the host's garbage collector does
			Expect(admin.Delete(ctx, object)).To(Succeed())
		}
		cp = newControlPlane("twice")
		create(ctx, cp)
		adopt(ctx, cp.Name)
		Eventually(func() string {
			return expectCondition(ctx, cp.Name, v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonKeysNotAdopted).Message
		}).Should(HavePrefix(`Secret "twice-service-account-key-9" was there before this ControlPlane, and nothing proves`))
		Expect(admin.Delete(ctx, planted)).To(Succeed())
		setReady(ctx, cp.Name)
		expectCondition(ctx, cp.Name, v1alpha1.ConditionAvailable, metav1.ConditionTrue, v1alpha1.ReasonServersReady)
		expectCondition(ctx, cp.Name, v1alpha1.ConditionDegraded, metav1.ConditionFalse, v1alpha1.ReasonAsExpected)
		Expect(secret(ctx, "twice-keys").Data).To(Equal(keys))
	})
})

// proofAnnotation proves Secrets of keys, but for that of the authorities.
const proofAnnotation = "tenantry.io/keys-mac"

// adopt answers for Secrets of keys that were there before a ControlPlane.
func adopt(ctx context.Context, name string) {
	GinkgoHelper()
	said := expectCondition(ctx, name, v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonKeysNotAdopted).Message
	Expect(said).To(MatchRegexp(`"kubectl -n ` + namespace + ` annotate --overwrite controlplane ` + name + ` tenantry.io/adopt-keys=[0-9a-f,]+"`))
	_, digests, _ := strings.Cut(said, v1alpha1.AdoptKeysAnnotation+"=")
	digests, _, _ = strings.Cut(digests, `"`)
	change(ctx, newControlPlane(name), name, func(cp *v1alpha1.ControlPlane) {
		cp.Annotations = map[string]string{v1alpha1.AdoptKeysAnnotation: digests}
	})
}

// foreigner returns an object of the kind and name of another, and of nobody.
func foreigner(object client.Object) client.Object {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: object.GetName(), Labels: map[string]string{"app": "other"}}
	switch object.(type) {
	case *corev1.ServiceAccount:
		return &corev1.ServiceAccount{ObjectMeta: meta}
	case *corev1.Service:
		return &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
	case *corev1.Secret:
		return &corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{"password": []byte("secret")}}
	case *networkingv1.NetworkPolicy:
		return &networkingv1.NetworkPolicy{ObjectMeta: meta}
	case *policyv1.PodDisruptionBudget:
		return &policyv1.PodDisruptionBudget{ObjectMeta: meta}
	case *appsv1.Deployment:
		return &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: meta.Labels}, Template: foreignPod(meta)}}
	default:
		return &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Selector: &metav1.LabelSelector{MatchLabels: meta.Labels}, Template: foreignPod(meta)}}
	}
}

func foreignPod(meta metav1.ObjectMeta) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: meta.Labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
}
