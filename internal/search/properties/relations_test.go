package properties

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

func TestLinks(t *testing.T) {
	named := func(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }
	for name, tc := range map[string]struct {
		object runtime.Object
		want   []Link
	}{
		"owners": {&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{UID: "1"}, {UID: "1"}, {UID: types.UID("2")}, {}}}},
			[]Link{{Relation: OwnedBy, UID: "1"}, {Relation: OwnedBy, UID: "2"}}},
		"nothing": {&corev1.ConfigMap{}, nil},
		"a claim": {&corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "v"}}, []Link{{Relation: boundTo, Resource: volumes, Name: "v"}}},
		"a pod": {&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a"}, Spec: corev1.PodSpec{
			NodeName:         "node",
			ImagePullSecrets: []corev1.LocalObjectReference{named("pull")},
			Volumes: []corev1.Volume{
				{VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: named("c1")}}},
				{VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s1"}}},
				{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "p1"}}},
				{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
					{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: named("c2")}}, {Secret: &corev1.SecretProjection{LocalObjectReference: named("s2")}}}}}},
			},
			InitContainers: []corev1.Container{{EnvFrom: []corev1.EnvFromSource{
				{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: named("c3")}}, {SecretRef: &corev1.SecretEnvSource{LocalObjectReference: named("s3")}}}}},
			Containers: []corev1.Container{{Env: []corev1.EnvVar{{Name: "A", Value: "hidden"},
				{ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: named("c1")}}},
				{ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: named("s4")}}}}}},
		}}, []Link{
			{Relation: runsOn, Resource: nodes, Name: "node"},
			{Relation: AttachedTo, Resource: configMaps, Namespace: "a", Name: "c1"},
			{Relation: AttachedTo, Resource: secrets, Namespace: "a", Name: "s1"},
			{Relation: AttachedTo, Resource: claims, Namespace: "a", Name: "p1"},
			{Relation: AttachedTo, Resource: configMaps, Namespace: "a", Name: "c2"},
			{Relation: AttachedTo, Resource: secrets, Namespace: "a", Name: "s2"},
			{Relation: AttachedTo, Resource: secrets, Namespace: "a", Name: "pull"},
			{Relation: AttachedTo, Resource: configMaps, Namespace: "a", Name: "c3"},
			{Relation: AttachedTo, Resource: secrets, Namespace: "a", Name: "s3"},
			{Relation: AttachedTo, Resource: secrets, Namespace: "a", Name: "s4"},
		}},
	} {
		if diff := cmp.Diff(tc.want, Links(tc.object)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if got := Selector(&corev1.Service{Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}}}); got["app"] != "web" {
		t.Errorf("selector %v", got)
	}
	if Selector(&corev1.Service{}) != nil || Selector(&corev1.Pod{}) != nil {
		t.Error("without a selector, something is selected")
	}
}
