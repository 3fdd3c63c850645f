// The scene of the tutorial, and superellipsoids behind it.
#version 3.7;
#include "scene.pov"
#declare Row = 0;
#while (Row < 3)
    #declare Column = -4;
    #while (Column <= 4)
        superellipsoid {
            <0.4 + Column * 0.05, 1.6 - Row * 0.4>
            scale 0.6
            rotate <20, 30 * Column, 0>
            translate <Column * 1.3, 2.4 + Row * 1.2, 2>
            pigment { rgb <0.4, 1, 0.4> }
            finish { Shiny }
        }
        #declare Column = Column + 1;
    #end
    #declare Row = Row + 1;
#end
