// Spheres of glass, mirror and marble on a chequered floor under two lights, with a swept lathe and a blob.
#version 3.7;
global_settings { assumed_gamma 1 max_trace_level 6 }
camera { location <0, 3, -8> look_at <0, 1, 0> }
light_source { <6, 9, -7> rgb 1 }
light_source { <-7, 5, -3> rgb <.4, .4, .5> }
background { rgb <.2, .3, .5> }
plane { y, 0 pigment { checker rgb .1, rgb .9 } finish { reflection .2 } }
#declare S = seed(1);
#declare I = 0;
#while (I < 60)
  sphere {
    <rand(S) * 10 - 5, .25 + rand(S) * 2, rand(S) * 8 - 2>, .1 + rand(S) * .3
    pigment { rgb <rand(S), rand(S), rand(S)> }
    #if (mod(I, 3) = 0) finish { reflection .5 phong .8 } #else
      #if (mod(I, 3) = 1) finish { phong .9 } interior { ior 1.4 } #else
        normal { bumps .3 scale .1 } finish { specular .4 } #end #end
  }
  #declare I = I + 1;
#end
sphere { <-1.5, 1.2, 0>, 1.1 pigment { rgbt <1, 1, 1, .9> } interior { ior 1.5 } finish { phong 1 reflection .1 } }
sphere { <1.5, 1.2, 1>, 1.1 pigment { marble turbulence .8 color_map { [0 rgb .2] [1 rgb <.9, .8, .7>] } } }
blob { threshold .6
  sphere { <0, .6, -2>, .8, 1 } sphere { <.5, .9, -2>, .7, 1 } sphere { <-.4, 1.1, -2.1>, .6, 1 }
  pigment { rgb <.9, .3, .2> } finish { specular .5 } }
lathe { cubic_spline 6, <.2, 0>, <.4, 0>, <.7, .5>, <.3, 1>, <.5, 1.5>, <.1, 1.6>
  translate <3, 0, -1> pigment { rgb <.3, .8, .4> } finish { reflection .3 } }
