// Surfaces whose points are roots of polynomials, found by Sturm sequences, and a superellipsoid.
#version 3.7;
global_settings { assumed_gamma 1.0 }
camera { location <0, 3, -7> look_at <0, 0, 0> }
light_source { <12, 18, -15> rgb 1 }
light_source { <-15, 9, -10> rgb 0.4 }
background { rgb <0.1, 0.1, 0.2> }
#declare Shiny = finish { phong 1 reflection 0.2 }
torus { 3.2, 0.6 sturm rotate x * -25 pigment { rgb <0.2, 0.5, 1> } finish { Shiny } }
torus { 1.6, 0.4 sturm rotate <60, 0, 25> pigment { rgb <1, 0.6, 0.1> } finish { Shiny } }
// x^4 + y^4 + z^4 + 2 x^2 y^2 - 4 x^2 - 4 y^2 + z^2 - 1 = 0
quartic {
    < 1, 0, 0, 0, 2, 0, 0, 0, 0, -4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, -4, 0, 0, 0, 0,
      1, 0, 1, 0, -1 >
    sturm
    scale 0.6
    translate <-4, 0, 1>
    pigment { rgb <0.9, 0.3, 0.4> }
    finish { Shiny }
}
superellipsoid { <0.4, 1.6> rotate <20, 30, 0> translate <4, 0, 0> pigment { rgb <0.4, 1, 0.4> } }
blob {
    threshold 0.6
    sphere { <-1, -1.6, -2>, 1.4, 2 }
    sphere { <0.4, -1.4, -2>, 1.6, 2 }
    sturm
    pigment { rgb <0.8, 0.8, 0.2> }
}
